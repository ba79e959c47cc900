#pragma once
// What requests are read against: a model as the server offers it. Set up once, then read by the I/O thread alone.

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

struct ServedModel {
  std::string name;
  std::vector<std::string> adapters;  // names of the model with an adapter; their index is Request::adapter
  int64_t created_s = 0;              // since 1970
  const Tokenizer* tokenizer = nullptr;
  int64_t vocab = 0, context = 0;

  bool writes = true;  // false: an encoder, which only makes vectors
  /// What is drawn where a request says nothing.
  SamplingOptions sampling;
  std::vector<int32_t> ends;                // ids that end a text
  std::vector<int32_t> turn_ends;           // further ones that end an answer
  std::vector<std::string> stops;           // the model's own stop strings
  std::shared_ptr<const TokenTexts> texts;  // of the tokens, for response_format; null: why_no_texts
  std::string why_no_texts;
  const ChatPrompt* chat = nullptr;
  std::string why_no_chat;  // where chat is null
  /// tool_marks: the special tokens that calls of tools are made of (ToolSyntax::marks). tool_texts: `texts` in which these
  /// tokens write their spelling.
  std::vector<std::pair<int32_t, std::string>> tool_marks;
  std::shared_ptr<const TokenTexts> tool_texts;

  int64_t longest_text = 0;  // tokens of a text for /v1/embeddings; 0: none are made
  std::string why_no_embeddings;
  std::string text_prefix;  // in front of every text
  int64_t width = 0;        // numbers of a vector

  const std::string& name_of(int adapter) const {
    return adapter == kNoAdapter ? name : adapters.at(static_cast<size_t>(adapter));
  }
};

/// Sets tool_marks and tool_texts; without such tokens tool_texts is the same as `texts`.
void take_tool_marks(ServedModel&);

/// What a request means by a name: one of several models, by itself or with an adapter.
struct CalledModel {
  size_t model = 0;
  int adapter = kNoAdapter;
};
/// Errors: ApiError 404 with the names there are.
CalledModel model_called(std::span<const ServedModel* const>, const std::string& name);
/// The one whose name the body's `model` gives; where it gives none, or what is no name, the first. Errors: as above.
size_t model_asked(std::span<const ServedModel* const>, const Json& body);
/// The adapter, or kNoAdapter, that a request to this model means. Errors: as above.
int adapter_called(const ServedModel&, const std::string& name);

}  // namespace tern
