#include "formats/chat/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/exact_json.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "formats/chat/conversation_rows.h"
#include "formats/chat/encode.h"
#include "formats/chat/template_files.h"

namespace tern {
namespace {

constexpr size_t kMaxMessages = 10'000, kMaxLine = size_t{64} << 20;
constexpr size_t kMaxPrefixBytes = size_t{1} << 30;  // encoded to find the borders of all turns together

void check_key(const std::string& key, const std::vector<std::string_view>& known, const std::string& place) {
  if (std::find(known.begin(), known.end(), key) != known.end()) return;
  throw Error(ErrorKind::bad_file, "{}: unknown key '{}'{}", place, make_printable(key.substr(0, 60)),
              key.size() > 60 ? "" : did_you_mean(key, known));
}

// What any of the templates writes between quotes.
bool names_literal(const ChatTemplates& templates, const std::string& word) {
  return std::ranges::any_of(templates.by_name, [&](const auto& entry) {
    const std::string& text = entry.second.text;
    return text.find('\'' + word + '\'') != std::string::npos || text.find('"' + word + '"') != std::string::npos;
  });
}

// A misspelt role would be rendered, and its words left out of the loss, without a sound.
void check_role(const std::string& role, const ChatTemplates& templates, const std::string& where) {
  static const std::vector<std::string_view> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  if (std::ranges::find(kRoles, role) != kRoles.end()) return;
  if (!role.empty() && role.size() <= 60 && names_literal(templates, role)) return;
  throw Error(ErrorKind::bad_file, "{}: role '{}', expected {} or one that the template names{}", where,
              make_printable(role.substr(0, 60)), fmt::join(kRoles, ", "),
              role.size() > 60 ? "" : did_you_mean(role, kRoles));
}

// A template made for texts writes a list as it stands, brackets and all.
void check_content(const Json& content, const ChatTemplates& templates, const std::string& where) {
  const bool reads_parts = std::ranges::any_of(templates.by_name, [](const auto& entry) {
    const std::string& text = entry.second.text;
    return text.find(".text") != std::string::npos || text.find("['text']") != std::string::npos ||
           text.find("[\"text\"]") != std::string::npos;
  });
  if (content.is_array() && !reads_parts)
    throw Error(ErrorKind::bad_file,
                "{}: content is a list of parts, which this template would write as it stands; give one text", where);
}

void check_messages(const Json& messages, const ChatTemplates& templates, const std::string& place) {
  if (!messages.is_array())
    throw Error(ErrorKind::bad_file, "{}: messages: {}, expected a list", place, messages.type_name());
  if (messages.size() > kMaxMessages)
    throw Error(ErrorKind::bad_file, "{}: {} messages, at most {} are read", place, messages.size(), kMaxMessages);
  bool answered = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& m = messages[i];
    const std::string where = fmt::format("{}: message {}", place, i + 1);
    if (!m.is_object()) throw Error(ErrorKind::bad_file, "{}: {}, expected an object", where, m.type_name());
    for (const auto& [key, value] : m.items())
      check_key(key,
                {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "thinking", "reasoning"},
                where);
    if (!m.contains("role") || !m["role"].is_string())
      throw Error(ErrorKind::bad_file, "{}: has no text 'role'", where);
    check_role(m["role"].get<std::string>(), templates, where);
    if (m.contains("content")) check_content(m["content"], templates, where);
    if (!m.contains("content") && !m.contains("tool_calls"))
      throw Error(ErrorKind::bad_file, "{}: has neither 'content' nor 'tool_calls'", where);
    answered = answered || m["role"] == "assistant";
  }
  if (!answered)
    throw Error(ErrorKind::bad_file, "{}: no message by the assistant, so there is nothing to learn from it", place);
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// The user's ranges within the first `end` bytes.
RenderedChat head_of(const RenderedChat& chat, size_t end) {
  RenderedChat head{.text = chat.text.substr(0, end), .user = {}, .assistant = {}};
  for (const TextSpan& s : chat.user)
    if (s.begin < end) head.user.push_back({s.begin, std::min(s.end, end)});
  return head;
}

}  // namespace

std::string_view name_of(Answers a) { return a == Answers::all ? "all" : a == Answers::last ? "last" : "each"; }
Answers answers_from_name(std::string_view name) {
  for (const Answers a : {Answers::all, Answers::last, Answers::each})
    if (name == name_of(a)) return a;
  throw Error(ErrorKind::usage, "answers: '{}', expected all, last or each", make_printable(name));
}

ChatTraining::ChatTraining(ChatTemplates templates, Tokenizer tokenizer, Answers answers, std::optional<std::tm> now)
    : templates_(std::move(templates)),
      tokenizer_(std::move(tokenizer)),
      answers_(answers),
      plain_(side(false)),
      with_tools_(side(true)) {
  if (now) {
    now_ = *now;
  } else {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &now_);
  }
}

ChatTraining::Side ChatTraining::side(bool tools) const {
  ChatTemplate jinja = ChatTemplate::choose(templates_, "", tools);
  std::vector<int32_t> control;  // of any of the templates: more than one is rare, and all steer the model
  for (const auto& [name, source] : templates_.by_name)
    for (const int32_t id : chat_control_tokens(tokenizer_, source.text)) control.push_back(id);
  return {std::move(jinja), std::move(control)};
}

std::string ChatTraining::hash() const {
  std::string all;
  for (const auto& [name, source] : templates_.by_name) all += name + '\0' + source.text + '\0';
  if (answers_ != Answers::all) all += name_of(answers_);  // hashes of before stay
  return fmt::format("{:016x}", hash_name(all));
}

// Writes a conversation by one side's template.
class ChatTraining::Renderer {
 public:
  Renderer(const Side& side, const Json* tools, const std::tm& now, const std::string& place)
      : side_(side), tools_(tools), now_(now), place_(place) {}
  RenderedChat operator()(const Json& messages, bool invite) const {
    ChatRequest request;
    request.messages = &messages;
    request.tools = tools_;
    request.add_generation_prompt = invite;
    request.now = now_;
    try {
      return side_.jinja.render(request);
    } catch (const Error& error) { throw Error(ErrorKind::bad_file, "{}: {}", place_, error.what()); }
  }
  bool marks_answers() const { return side_.jinja.marks_assistant(); }
  const std::string& place() const { return place_; }

 private:
  const Side& side_;
  const Json* tools_;
  const std::tm& now_;
  const std::string& place_;
};

struct ChatTraining::Marked {
  RenderedChat chat;
  std::vector<TextSpan> answers;
};

ChatTraining::Marked ChatTraining::mark_all(const Renderer& render, const Json& messages) const {
  Marked marked{render(messages, false), {}};
  marked.answers = marked.chat.assistant;
  if (render.marks_answers()) return marked;
  Json before = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool last = i + 1 == messages.size();
    if (messages[i]["role"] != "assistant") {
      before.push_back(messages[i]);
      continue;
    }
    const std::string invited = before.empty() ? "" : render(before, true).text;
    before.push_back(messages[i]);
    const std::string answered = last ? marked.chat.text : render(before, false).text;
    const size_t begin = common_prefix(invited, answered);
    if (!marked.chat.text.starts_with(answered) || begin == answered.size())
      throw Error(ErrorKind::bad_file,
                  "{}: message {}: the template writes this answer otherwise when more follows, so it cannot be told "
                  "apart; --answers each learns every answer with the turns before it, --answers last the last one",
                  render.place(), i + 1);
    marked.answers.push_back({begin, answered.size()});
  }
  return marked;
}

// `messages` end with the answer, which is message `number` of its line.
ChatTraining::Marked ChatTraining::mark_last(const Renderer& render, const Json& messages, size_t number) const {
  Json before = messages;
  before.erase(before.size() - 1);
  Marked marked{render(messages, false), {}};
  if (render.marks_answers()) {
    const size_t earlier = before.empty() ? 0 : render(before, false).assistant.size();
    for (size_t i = earlier; i < marked.chat.assistant.size(); ++i) marked.answers.push_back(marked.chat.assistant[i]);
    return marked;
  }
  const size_t begin = common_prefix(before.empty() ? "" : render(before, true).text, marked.chat.text);
  if (begin == marked.chat.text.size())
    throw Error(ErrorKind::bad_file, "{}: message {}: the template writes nothing of this answer", render.place(),
                number);
  marked.answers.push_back({begin, marked.chat.text.size()});
  return marked;
}

// `spent`: bytes that were encoded to find borders, of the whole line.
TrainingChat ChatTraining::encode_marked(const Marked& marked, const Side& side, size_t& spent,
                                         const std::string& place) const {
  if (marked.answers.empty())
    throw Error(ErrorKind::bad_file, "{}: the template marks no answer of this conversation", place);
  TrainingChat out;
  out.ids = encode_chat(tokenizer_, marked.chat, side.control);
  out.loss.assign(out.ids.size(), 0);
  // Where the first `end` bytes end in the ids; `split`: a token lies on both sides.
  const auto border = [&](size_t end, bool& split) {
    if ((spent += end) > kMaxPrefixBytes)
      throw Error(ErrorKind::bad_file, "{}: a conversation of {} bytes and {} answers is too long to mark; part it",
                  place, marked.chat.text.size(), marked.answers.size());
    const std::vector<int32_t> head = encode_chat(tokenizer_, head_of(marked.chat, end), side.control);
    const auto same = std::mismatch(head.begin(), head.end(), out.ids.begin(), out.ids.end());
    split = same.first != head.end();
    return static_cast<size_t>(same.first - head.begin());
  };
  for (const TextSpan& answer : marked.answers) {
    bool split = false;
    const size_t begin = border(answer.begin, split);
    size_t end = border(answer.end, split);
    if (split) end = std::min(end + 1, out.ids.size());
    // "<|im_end|>\n": the answer ends with its special token.
    if (!side.jinja.marks_assistant())
      for (size_t t = end; t > begin; --t) {
        if (!tokenizer_.is_special(out.ids[t - 1])) continue;
        if (trim(tokenizer_.decode(std::span(out.ids).subspan(t, end - t))).empty()) end = t;
        break;
      }
    std::fill(out.loss.begin() + static_cast<ptrdiff_t>(begin), out.loss.begin() + static_cast<ptrdiff_t>(end),
              uint8_t{1});
  }
  return out;
}

void ChatTraining::encode(std::string_view text, const std::string& place,
                          const std::function<void(const TrainingChat&)>& sample) const {
  const Json record = as_messages(parse_exact_json(text, place, {.max_bytes = kMaxLine}), place);
  if (!record.is_object()) throw Error(ErrorKind::bad_file, "{}: {}, expected an object", place, record.type_name());
  for (const auto& [key, value] : record.items()) check_key(key, {"messages", "tools"}, place);
  if (!record.contains("messages")) throw Error(ErrorKind::bad_file, "{}: 'messages' is missing", place);
  const Json& messages = record["messages"];
  check_messages(messages, templates_, place);
  const Json* tools = record.contains("tools") && !record["tools"].is_null() ? &record["tools"] : nullptr;
  if (tools && !tools->is_array())
    throw Error(ErrorKind::bad_file, "{}: tools: {}, expected a list", place, tools->type_name());
  if (tools && tools->empty()) tools = nullptr;

  const Side& s = tools ? with_tools_ : plain_;
  const Renderer render(s, tools, now_, place);
  size_t spent = 0;
  if (answers_ == Answers::all) return sample(encode_marked(mark_all(render, messages), s, spent, place));
  size_t last = messages.size() - 1;
  while (messages[last]["role"] != "assistant") --last;  // check_messages has seen one
  Json turns = Json::array();
  for (size_t i = 0; i <= last; ++i) {
    turns.push_back(messages[i]);
    if (messages[i]["role"] == "assistant" && (i == last || answers_ == Answers::each))
      sample(encode_marked(mark_last(render, turns, i + 1), s, spent, place));
  }
}

}  // namespace tern
