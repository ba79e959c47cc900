#pragma once
// A model as the server offers it: what the server must know of it to read a request. It is set up once; then only the I/O thread reads it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "infer/sampling.h"
#include "spec/adapter_spec.h"

namespace tern {

class ChatPrompt;   // infer/chat_prompt.h
struct TokenTexts;  // infer/constrain/constraint.h
class Tokenizer;    // formats/tokenizer/tokenizer.h

/// All pointers look into what must outlive it.
struct ServedModel {
  std::string name;
  std::vector<std::string> adapters;  // by Request::adapter: the name of the model with that adapter
  int64_t created_s = 0;              // seconds since 1970
  const Tokenizer* tokenizer = nullptr;
  int64_t vocab = 0, context = 0;

  bool writes = true;  // false: an encoder, which only makes vectors
  /// The options of drawing that a request does not give.
  SamplingOptions sampling;
  std::vector<int32_t> ends;                // ids that end a text
  std::vector<int32_t> turn_ends;           // ids that end an answer of a chat too
  std::vector<std::string> stops;           // the model's own stop strings
  std::shared_ptr<const TokenTexts> texts;  // of the tokens, for response_format; null: why_no_texts says why
  std::string why_no_texts;
  const ChatPrompt* chat = nullptr;  // null: why_no_chat says why
  std::string why_no_chat;
  /// The special tokens of which calls of tools are made, with their spelling (ToolSyntax::marks).
  std::vector<std::pair<int32_t, std::string>> tool_marks;
  /// `texts` in which these tokens write their spelling.
  std::shared_ptr<const TokenTexts> tool_texts;
  // The most tokens of a text for /v1/embeddings; 0: no vectors are made, and why_no_embeddings says why.
  int64_t longest_text = 0;
  std::string why_no_embeddings;
  std::string text_prefix;  // is put in front of every text
  int64_t width = 0;        // the number of elements of a vector

  const std::string& name_of(int adapter) const {
    return adapter == kNoAdapter ? name : adapters.at(static_cast<size_t>(adapter));
  }
};

/// Sets tool_marks and tool_texts. If the model has no such tokens, tool_texts is `texts`.
void take_tool_marks(ServedModel&);
/// What a name in a request stands for: one of several models, by itself or with an adapter.
struct CalledModel {
  size_t model = 0;
  int adapter = kNoAdapter;
};
/// The model of that name. Errors: ApiError 404 with the names that there are.
CalledModel model_called(std::span<const ServedModel* const>, const std::string& name);
/// The index of the model that the body's `model` names; of the first, if that is absent or is no text. Errors: as above.
size_t model_asked(std::span<const ServedModel* const>, const Json& body);
/// The adapter of this model that the name stands for, or kNoAdapter. Errors: as above.
int adapter_called(const ServedModel&, const std::string& name);

}  // namespace tern
