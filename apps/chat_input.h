#pragma once
// What a line of input means in a chat: a part of a message, or a command.

#include <optional>
#include <string>
#include <string_view>

namespace tern {

/// Makes messages of lines. A line that ends with '\' is continued by the next; between """ and """ lines are kept as they are.
class ChatInput {
 public:
  /// Takes the next line. Returns a whole message, or none if the message is not whole yet.
  std::optional<std::string> push(std::string_view line);
  /// Whether a message was begun and is not whole.
  bool open() const { return block_ || !held_.empty(); }
  /// Called at the end of input: returns the message that was begun, if any.
  std::optional<std::string> finish();
  /// Forgets what was begun.
  void drop() { *this = {}; }

 private:
  std::string held_;
  bool block_ = false;
};

/// A command, such as {"undo", ""} of "/undo".
struct ChatCommand {
  std::string name, argument;
};
/// The message as a command; none: it is not one. If the message begins with "//", it is not a command, and this removes its first '/'.
std::optional<ChatCommand> chat_command(std::string& message);

}  // namespace tern
