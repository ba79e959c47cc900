#pragma once
// The messages of a conversation, without a model or a terminal.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

struct ChatMessage {
  std::string role, content;  // system, user, assistant
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

/// A conversation: a system prompt, which may be empty, then messages of user and assistant in turn.
class ChatHistory {
 public:
  std::string system;
  const std::vector<ChatMessage>& turns() const { return turns_; }
  void ask(std::string text) { turns_.push_back({"user", std::move(text)}); }
  void answer(std::string text) { turns_.push_back({"assistant", std::move(text)}); }
  bool waits_for_answer() const { return !turns_.empty() && turns_.back().role == "user"; }
  void clear() { turns_.clear(); }
  /// Removes the last question and its answer. False: there is none.
  bool undo();
  /// Removes the last answer and keeps its question. False: there is none.
  bool forget_answer();

  /// [{"role": …, "content": …}, …], the system prompt first.
  Json messages() const;
  /// {"messages": [...]} on one line, as `tern train` reads it.
  std::string to_json() const;
  /// Reads what to_json writes. Errors  bad_file "PLACE: …": another form; tool calls, or parts other than text; roles out of turn.
  static ChatHistory from_json(std::string_view text, const std::string& place);

 private:
  std::vector<ChatMessage> turns_;
};

}  // namespace tern
