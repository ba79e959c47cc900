#include "apps/chat_input.h"

#include <algorithm>

#include "base/text.h"

namespace tern {

std::optional<std::string> ChatInput::push(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!block_ && held_.empty() && line.starts_with("\"\"\"")) {
    block_ = true;
    line.remove_prefix(3);
    if (line.empty()) return {};
  }
  if (block_) {
    if (line.ends_with("\"\"\"")) {
      held_ += line.substr(0, line.size() - 3);
      return finish();
    }
    held_ += line;
    held_ += '\n';
    return {};
  }
  if (line.ends_with('\\')) {
    held_ += line.substr(0, line.size() - 1);
    held_ += '\n';
    return {};
  }
  held_ += line;
  return finish();
}

std::optional<std::string> ChatInput::finish() {
  std::string whole;
  whole.swap(held_);
  if (block_ && whole.ends_with('\n')) whole.pop_back();
  block_ = false;
  if (trim(whole).empty()) return {};
  return whole;
}

std::optional<ChatCommand> chat_command(std::string& message) {
  if (!message.starts_with('/')) return {};
  if (message.starts_with("//")) {
    message.erase(0, 1);
    return {};
  }
  const size_t end = std::min(message.find_first_of(" \t\n"), message.size());
  return ChatCommand{lowercase(message.substr(1, end - 1)), std::string(trim(message.substr(end)))};
}

}  // namespace tern
