#pragma once
// What an engine says of a request, as the OpenAI interface writes it: whole, or piece by piece.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/chat/tool_reader.h"
#include "infer/engine.h"
#include "serve/ask.h"

namespace tern {

/// Bytes that the answer takes until its client has it: tokens, their log-probabilities, and the JSON. Estimated from
/// max_tokens and the length of usual tokens. 0 for a stream, which is sent piece by piece.
int64_t answer_bytes(const Asked&);

class Answer {
 public:
  /// The model must outlive it.
  Answer(Asked, const ServedModel&, std::string id, int64_t created_s);

  /// Takes an event of prompt number `prompt`. Of a stream: what is to be sent now, "data: …" with its blank line; may be
  /// empty. Of a whole answer always empty.
  std::string take(size_t prompt, const Event&);
  bool complete() const { return open_ == 0; }
  /// The end of a complete stream: the usage, if it was asked for, and [DONE].
  std::string stream_end() const;
  std::string whole() const;

  const Asked& asked() const { return asked_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  struct Call {
    int64_t index;
    std::string id, name;  // empty: of a call that was begun before
    std::string arguments;
  };
  struct Choice {
    std::string text;
    std::optional<ToolReader> tools;  // where tools may be called
    std::vector<Call> calls;
    int64_t num_calls = 0;
    std::vector<int32_t> ids;
    std::vector<DrawnToken> drawn;  // where log-probabilities are asked for
    int64_t offset = 0;             // characters before these tokens
    bool begun = false;
    std::string reason;  // empty: not ended
    double mean_log_probability = 0;
  };
  void take_text(size_t index, const std::string& text, bool ends);
  std::string call_id(size_t index, int64_t call) const;
  std::string log_probabilities(const Choice&) const;
  std::string with_log_probabilities(std::string json, const Choice&) const;
  std::vector<const Choice*> kept() const;
  Json frame(bool piece) const;
  Json usage() const;
  Json choice_json(size_t index, const Choice&, bool piece, bool first) const;

  Asked asked_;
  const ServedModel& model_;
  std::string id_;
  int64_t created_s_;
  std::vector<Choice> choices_;  // of a stream: what was not sent yet
  size_t open_;
  int64_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
};

/// The text that a token adds in the middle of a text: SentencePiece's pieces keep the blank in front.
std::string token_text(const Tokenizer&, int32_t id);

}  // namespace tern
