#include "formats/chat/tool_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace tern {
namespace {

constexpr std::string_view kSpace = " \n\t\r", kArgs = "[ARGS]", kCallId = "[CALL_ID]", kEndTag = "</tool_call>";
constexpr size_t kMostHead = 64 << 10, kMostName = 256;

enum class Scan : uint8_t { done, wait, no };

// JSON from the left, as far as it has come.
struct ToolCursor {
  std::string_view text;
  size_t at = 0;

  bool skip_space() {
    at = std::min(text.find_first_not_of(kSpace, at), text.size());
    return at < text.size();
  }
  Scan expect(char c) {
    if (!skip_space()) return Scan::wait;
    return text[at] == c ? (++at, Scan::done) : Scan::no;
  }
  Scan string(std::string& out) {
    const size_t begin = at;
    if (const Scan open = expect('"'); open != Scan::done) return at = begin, open;
    const size_t quote = at - 1;
    for (; at < text.size() && text[at] != '"'; ++at)
      if (text[at] == '\\') ++at;
    if (at >= text.size()) return at = begin, Scan::wait;
    ++at;
    try {
      out = parse_json(text.substr(quote, at - quote), "a call").get<std::string>();
    } catch (const Error&) { return Scan::no; }
    return Scan::done;
  }
  // Over one value.
  Scan value() {
    if (!skip_space()) return Scan::wait;
    std::string ignored;
    if (text[at] == '"') return string(ignored);
    int depth = 0;
    for (bool quoted = false; at < text.size(); ++at) {
      const char c = text[at];
      if (quoted) {
        if (c == '\\') ++at;
        quoted = c != '"';
        continue;
      }
      quoted = c == '"';
      if (c == '{' || c == '[') ++depth;
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) return Scan::done;
      if ((c == '}' || c == ']') && --depth == 0) return ++at, Scan::done;
    }
    return Scan::wait;
  }
};

struct Head {
  std::string name;
  size_t end = 0;                        // of what was read
  std::optional<std::string> arguments;  // they came before the name, or there are none
  bool object_open = true;  // what follows is of the call's object: its arguments, where there are none yet
};

// {"name": NAME, "arguments": …
Scan read_object(ToolCursor c, Head& head) {
  if (const Scan s = c.expect('{'); s != Scan::done) return s;
  std::optional<std::string> name;
  for (;;) {
    std::string key;
    if (const Scan s = c.string(key); s != Scan::done) return s;
    if (const Scan s = c.expect(':'); s != Scan::done) return s;
    if (key == "name") {
      if (const Scan s = c.string(name.emplace()); s != Scan::done) return s;
      head.name = *name;
    } else if (key == "arguments" || key == "parameters") {
      if (!c.skip_space()) return Scan::wait;
      const size_t begin = c.at;
      if (name) return head.end = begin, Scan::done;
      if (const Scan s = c.value(); s != Scan::done) return s;
      head.arguments = std::string(c.text.substr(begin, c.at - begin));
    } else if (const Scan s = c.value(); s != Scan::done) {
      return s;
    }
    if (!c.skip_space()) return Scan::wait;
    const char next = c.text[c.at++];
    if (next == '}') {
      if (!head.arguments) head.arguments = "{}";
      head.end = c.at, head.object_open = false;
      return name ? Scan::done : Scan::no;
    }
    if (next != ',') return Scan::no;
    if (name && head.arguments) return head.end = c.at - 1, Scan::done;
  }
}

// NAME[ARGS], or NAME[CALL_ID]ID[ARGS]
Scan read_named(ToolCursor c, Head& head) {
  c.skip_space();
  const size_t bracket = c.text.find('[', c.at);
  if (bracket == std::string::npos) return c.text.size() - c.at > kMostName ? Scan::no : Scan::wait;
  const std::string_view rest = c.text.substr(bracket);
  head.name = std::string(c.text.substr(c.at, bracket - c.at));
  head.name.erase(head.name.find_last_not_of(kSpace) + 1);
  const auto begins = [&](std::string_view mark) { return rest.starts_with(mark.substr(0, rest.size())); };
  const size_t args = begins(kArgs) || begins(kCallId) ? rest.find(kArgs) : 0;
  if (args == std::string::npos) return rest.size() > kMostName ? Scan::no : Scan::wait;
  if (args == 0 && !rest.starts_with(kArgs)) return Scan::no;
  head.end = bracket + args + kArgs.size();
  return Scan::done;
}

// How many bytes at the end of `text` may be the beginning of `mark`.
size_t begun(std::string_view text, std::string_view mark) {
  size_t most = std::min(text.size(), mark.size() - 1);
  while (most > 0 && !text.ends_with(mark.substr(0, most))) --most;
  return most;
}

// Arguments that a model wrote as a string hold the JSON within; null is none.
std::string arguments_of(const std::string& json) {
  if (json.starts_with('"')) {
    std::string inner;
    return ToolCursor{json}.string(inner) == Scan::done ? inner : json;
  }
  return json.empty() || json.starts_with("null") ? "{}" : json;
}

}  // namespace

ToolReader::ToolReader(ToolSyntax syntax, std::vector<std::string> names)
    : syntax_(std::move(syntax)), names_(std::move(names)) {}

void ToolReader::add(ToolPiece::Kind kind, std::string text) {
  const int64_t call = kind == ToolPiece::Kind::content ? 0 : num_calls_ - 1;
  if (!pieces_.empty() && kind != ToolPiece::Kind::name && pieces_.back().kind == kind && pieces_.back().call == call)
    pieces_.back().text += text;
  else if (!text.empty())
    pieces_.push_back({kind, call, std::move(text)});
}

// White space waits: next to a call it is none of the content.
void ToolReader::add_content(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string::npos) {
    space_ += text;
    return;
  }
  std::string out = space_ + std::string(text.substr(0, last + 1));
  if (after_call_) out.erase(0, out.find_first_not_of(kSpace));
  after_call_ = false;
  space_ = text.substr(last + 1);
  add(ToolPiece::Kind::content, std::move(out));
}

void ToolReader::begin_call(const std::string& name) {
  space_.clear();
  after_call_ = true;
  ++num_calls_;
  add(ToolPiece::Kind::name, name);
}

// What looked like a call is content.
void ToolReader::refuse_call() {
  state_ = State::content;
  if (syntax_.form == ToolForm::bare) {
    all_content_ = true;
  } else if (!in_list_) {
    const size_t mark = syntax_.mark().size();
    add_content(std::string_view(held_).substr(0, mark));
    held_.erase(0, mark);
  }
  in_list_ = false;
}

bool ToolReader::read_content(bool ends) {
  if (syntax_.form == ToolForm::bare) {
    const size_t first = held_.find_first_not_of(kSpace);
    if (!all_content_ && first != std::string::npos && held_[first] == '{') {
      add_content(std::string_view(held_).substr(0, first));
      held_.erase(0, first);
      state_ = State::head;
      return true;
    }
    all_content_ |= first != std::string::npos;
    add_content(held_);
    held_.clear();
    return false;
  }
  const size_t mark = held_.find(syntax_.mark());
  const size_t end = mark != std::string::npos ? mark : held_.size() - (ends ? 0 : begun(held_, syntax_.mark()));
  add_content(std::string_view(held_).substr(0, end));
  held_.erase(0, end);
  if (mark != std::string::npos) state_ = State::head;
  return mark != std::string::npos;
}

bool ToolReader::read_head() {
  ToolCursor c{held_};
  if (syntax_.form != ToolForm::bare && !in_list_) c.at = syntax_.mark().size();
  Head head;
  Scan scan = Scan::done;
  if (syntax_.form == ToolForm::listed && !in_list_) scan = c.expect('[');
  if (scan == Scan::done) scan = syntax_.form == ToolForm::named ? read_named(c, head) : read_object(c, head);
  if (scan == Scan::wait && held_.size() < kMostHead) return false;
  if (scan != Scan::done || std::ranges::find(names_, head.name) == names_.end()) return refuse_call(), true;
  begin_call(head.name);
  held_.erase(0, head.end);
  state_ = head.arguments ? State::tail : State::arguments;
  in_object_ = head.object_open && syntax_.form != ToolForm::named;
  depth_ = 0, in_string_ = escaped_ = false;
  if (head.arguments) add(ToolPiece::Kind::arguments, arguments_of(*head.arguments));
  return true;
}

bool ToolReader::read_arguments() {
  size_t at = 0;
  if (depth_ == 0) {
    ToolCursor c{held_};
    if (!c.skip_space()) return false;
    const size_t begin = c.at;
    if (held_[begin] != '{' && held_[begin] != '[') {
      if (c.value() == Scan::wait) return false;
      add(ToolPiece::Kind::arguments, arguments_of(held_.substr(begin, c.at - begin)));
      held_.erase(0, c.at);
      state_ = State::tail;
      return true;
    }
    held_.erase(0, begin);
    depth_ = 1, at = 1;
  }
  for (; at < held_.size() && depth_ > 0; ++at) {
    const char c = held_[at];
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else {
      in_string_ = c == '"';
      depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    }
  }
  add(ToolPiece::Kind::arguments, held_.substr(0, at));
  held_.erase(0, at);
  if (depth_ == 0) state_ = State::tail;
  return depth_ == 0;
}

// What stands behind a call's object: its end, or the next call.
bool ToolReader::close_call() {
  const size_t first = std::min(held_.find_first_not_of(kSpace), held_.size());
  const std::string_view rest = std::string_view(held_).substr(first);
  const auto go = [&](State state, size_t read) {
    held_.erase(0, first + read);
    state_ = state;
    return true;
  };
  all_content_ = true;
  if (syntax_.form == ToolForm::named) return go(State::content, 0);
  if (rest.empty()) return false;
  if (syntax_.form == ToolForm::tagged) {
    if (rest.starts_with(kEndTag)) return go(State::content, kEndTag.size());
    if (kEndTag.starts_with(rest)) return false;
    return go(State::content, 0);
  }
  const bool listed = syntax_.form == ToolForm::listed;
  in_list_ = listed && rest[0] == ',';
  if (in_list_) return go(State::head, 1);
  if (!listed && rest[0] == ';') return go(State::tail, 1);
  if (!listed && rest[0] == '{') return go(State::head, 0);
  return go(State::content, listed && rest[0] == ']' ? 1 : 0);
}

bool ToolReader::read_tail() {
  if (!in_object_) return close_call();
  ToolCursor c{held_};
  Scan scan = Scan::done;
  std::string key;
  for (;;) {
    if (!c.skip_space()) return false;
    const char next = held_[c.at++];
    if (next == '}') break;
    scan = next == ',' ? c.string(key) : Scan::no;
    if (scan == Scan::done) scan = c.expect(':');
    if (scan == Scan::done) scan = c.value();
    if (scan == Scan::wait) return false;
    if (scan == Scan::no) break;
  }
  in_object_ = false;
  held_.erase(0, scan == Scan::no ? 0 : c.at);
  return true;
}

std::vector<ToolPiece> ToolReader::push(std::string_view text) {
  held_ += text;
  for (bool goes_on = !held_.empty(); goes_on;) {
    if (state_ == State::content)
      goes_on = read_content(false);
    else if (state_ == State::head)
      goes_on = read_head();
    else
      goes_on = state_ == State::arguments ? read_arguments() : read_tail();
  }
  return std::exchange(pieces_, {});
}

std::vector<ToolPiece> ToolReader::finish() {
  if (state_ == State::content) read_content(true);
  if (state_ == State::head) add_content(held_);
  held_.clear();
  if (num_calls_ == 0) add(ToolPiece::Kind::content, std::exchange(space_, {}));
  return std::exchange(pieces_, {});
}

}  // namespace tern
