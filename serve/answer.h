#pragma once
// The answer to a completion or a chat, made of the engine's events and written as the OpenAI interface has it: whole, or piece by piece.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/chat/tool_reader.h"
#include "infer/engine.h"
#include "serve/ask.h"

namespace tern {

/// An estimate of the bytes that a whole answer takes until its client has it: tokens, their log-probabilities, and the JSON. It assumes
/// max_tokens tokens of usual length. 0 for a stream, which is sent piece by piece.
int64_t answer_bytes(const Asked&);

/// One answer, from the first event to the last.
class Answer {
 public:
  /// The model must outlive it. `id` and `created_s` (seconds since 1970) are those that the client sees.
  Answer(Asked, const ServedModel&, std::string id, int64_t created_s);

  /// Takes an event of prompt number `prompt`. For a stream it returns what is to be sent now, "data: …" with its blank line, or nothing; for a
  /// whole answer always nothing.
  std::string take(size_t prompt, const Event&);
  bool complete() const { return open_ == 0; }
  /// The end of a complete stream: the usage, if the client asked for it, and [DONE].
  std::string stream_end() const;
  /// A complete answer that is no stream, as JSON.
  std::string whole() const;

  const Asked& asked() const { return asked_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  struct Call {
    int64_t index;
    std::string id, name;  // empty: this continues a call that was begun before
    std::string arguments;
  };
  struct Choice {
    std::string text;
    std::optional<ToolReader> tools;  // if tools may be called
    std::vector<Call> calls;
    int64_t num_calls = 0;
    std::vector<int32_t> ids;
    std::vector<DrawnToken> drawn;  // if log-probabilities are asked for
    int64_t offset = 0;             // the number of characters before these tokens
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
  std::string piece_begin_;      // of a stream: what each piece begins with, up to its choice
  std::vector<Choice> choices_;  // for a stream: what was not sent yet
  size_t open_;
  int64_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
};

/// The text that a token adds in the middle of a text. Pieces of SentencePiece keep the blank in front.
std::string token_text(const Tokenizer&, int32_t id);

}  // namespace tern
