#include "formats/chat/tool_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "formats/chat/template.h"

namespace tern {
namespace {

constexpr std::string_view kName = "probe_tool", kKey = "\"probe_key\"", kTag = "<tool_call>", kTagEnd = "</tool_call>",
                           kCalls = "[TOOL_CALLS]";

// Around the call that a template wrote.
struct Probe {
  std::string before, middle, after;
};

std::string without_space(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') out += c;
  return out;
}

// The call of a conversation as the template writes it, from where the assistant's answer begins. nullopt: it does not
// show tools, or not the call.
std::optional<Probe> probe(const ChatTemplate& chat) {
  const Json tools = Json::array({{{"type", "function"},
                                   {"function",
                                    {{"name", kName},
                                     {"description", "a"},
                                     {"parameters",
                                      {{"type", "object"},
                                       {"properties", {{"probe_key", {{"type", "string"}}}}},
                                       {"required", {"probe_key"}}}}}}}});
  Json messages = Json::array({{{"role", "user"}, {"content", "b"}}});
  ChatRequest request;
  request.messages = &messages;
  request.tools = &tools;
  request.add_generation_prompt = true;
  const std::string begun = chat.render(request).text;
  if (begun.find(kName) == std::string::npos) return std::nullopt;
  messages.push_back({{"role", "assistant"},
                      {"content", ""},
                      {"tool_calls",
                       {{{"id", "a1B2c3D4e"},
                         {"type", "function"},
                         {"function", {{"name", kName}, {"arguments", {{"probe_key", "c"}}}}}}}}});
  messages.push_back({{"role", "tool"}, {"name", kName}, {"tool_call_id", "a1B2c3D4e"}, {"content", "d"}});
  request.add_generation_prompt = false;
  const std::string text = chat.render(request).text;
  const auto common =
      static_cast<size_t>(std::mismatch(begun.begin(), begun.end(), text.begin(), text.end()).first - begun.begin());
  const size_t name = text.find(kName, common), key = text.find(kKey, name == std::string::npos ? name : name + 1);
  if (key == std::string::npos) return std::nullopt;
  const size_t behind = name + kName.size(), brace = text.rfind('{', key), end = text.find('}', key);
  if (brace == std::string::npos || brace < behind || end == std::string::npos) return std::nullopt;
  return Probe{text.substr(common, name - common), text.substr(behind, brace - behind), text.substr(end + 1)};
}

std::optional<ToolSyntax> syntax_of(const Probe& p) {
  const std::string middle = without_space(p.middle), after = without_space(p.after);
  const bool keyed = middle == "\",\"arguments\":" || middle == "\",\"parameters\":";
  if (const size_t tag = p.before.rfind(kTag); tag != std::string::npos) {
    const std::string first = p.before.substr(tag);
    const size_t end = p.after.find(kTagEnd);
    if (without_space(first) != std::string(kTag) + "{\"name\":\"" || !keyed ||
        !after.starts_with("}" + std::string(kTagEnd)))
      return std::nullopt;
    const std::string last = p.after.substr(0, end + kTagEnd.size());
    return ToolSyntax{ToolForm::tagged, first, p.middle, last + "\n" + first, last};
  }
  const size_t calls = p.before.find(kCalls);
  if (calls == std::string::npos) {
    if (without_space(p.before) != "{\"name\":\"" || !keyed || !after.starts_with("}")) return std::nullopt;
    return ToolSyntax{ToolForm::bare, p.before, p.middle, "", "}"};
  }
  const std::string first = p.before.substr(calls);
  if (without_space(first) == std::string(kCalls) && middle.ends_with("[ARGS]"))
    return ToolSyntax{ToolForm::named, first, "[ARGS]", first, ""};
  if (without_space(first) != std::string(kCalls) + "[{\"name\":\"" || !keyed) return std::nullopt;
  return ToolSyntax{ToolForm::listed, first, p.middle, "}, {\"name\": \"", "}]"};
}

}  // namespace

std::string_view ToolSyntax::mark() const {
  return form == ToolForm::tagged ? kTag : form == ToolForm::bare ? std::string_view("{") : kCalls;
}

const std::vector<std::string>& ToolSyntax::marks() {
  static const std::vector<std::string> all = {std::string(kTag), std::string(kTagEnd), std::string(kCalls), "[ARGS]",
                                               "[CALL_ID]"};
  return all;
}

std::optional<ToolSyntax> tool_syntax(const ChatTemplate& chat, std::string& why) {
  try {
    const std::optional<Probe> call = probe(chat);
    if (!call) {
      why = "the model's chat template has no place for tools";
      return std::nullopt;
    }
    std::optional<ToolSyntax> syntax = syntax_of(*call);
    if (!syntax)
      why = fmt::format(
          "the model's chat template writes calls in a form that tern does not read ({}NAME{}…); it reads those of "
          "Llama 3, Hermes and Qwen2.5, and Mistral",
          make_printable(call->before.substr(0, 60)), make_printable(call->middle.substr(0, 40)));
    return syntax;
  } catch (const Error& error) {
    why = fmt::format("the model's chat template refuses a conversation with tools: {}", error.what());
    return std::nullopt;
  }
}

}  // namespace tern
