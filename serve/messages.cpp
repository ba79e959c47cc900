#include "serve/messages.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/exact_json.h"
#include "infer/chat_prompt.h"
#include "serve/api_error.h"

namespace tern {
namespace {

using CallNames = std::map<std::string, std::string>;  // of tools, by the id of the call

std::string text_of_parts(const Json& content, const std::string& place) {
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], fmt::format("{}[{}]", place, i));
    const auto type = part.text("type");
    if (type != "text")
      part.fail("type", type ? fmt::format("{}, and this model reads texts only", describe_json(*type))
                             : "is missing, expected \"text\"");
    const auto words = part.text("text");
    if (!words) part.fail("text", "is missing");
    part.done();
    if (i > 0) text += '\n';
    text += *words;
  }
  return text;
}

std::string read_content(Fields& one, bool may_lack) {
  const Json* content = one.value("content");
  if (!content && may_lack) return "";
  if (!content) one.fail("content", "is missing");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array() || content->empty())
    one.fail("content", fmt::format("{}, expected a text or a list of parts",
                                    content->is_array() ? "an empty list" : describe_json(*content)));
  return text_of_parts(*content, one.place_of("content"));
}

void check_tools(const Fields& fields, std::string_view name, const ServedModel& model) {
  if (model.chat && !model.chat->tool_syntax())
    fields.fail(name, fmt::format("is not supported: {}", model.chat->why_no_tools()));
}

// A call that an assistant made: its arguments come as JSON in a text.
Json read_call(const Json& json, const std::string& place, CallNames& names) {
  Fields call(json, place);
  const auto id = call.text("id"), type = call.text("type");
  if (!id || id->empty()) call.fail("id", "is missing");
  if (type.value_or("function") != "function")
    call.fail("type", fmt::format("{}, expected \"function\"", describe_json(*type)));
  const Json* wrapped = call.value("function");
  if (!wrapped) call.fail("function", "is missing");
  call.ignore("index");
  call.done();
  Fields function(*wrapped, call.place_of("function"));
  const auto name = function.text("name"), arguments = function.text("arguments");
  if (!name || name->empty()) function.fail("name", "is missing");
  if (!arguments) function.fail("arguments", "is missing, expected a text that holds JSON");
  function.done();
  Json object = Json::object();
  if (!arguments->empty()) try {
      object = parse_exact_json(*arguments, "the text");
    } catch (const Error& error) { function.fail("arguments", error.what()); }
  if (!object.is_object())
    function.fail("arguments", fmt::format("hold {}, expected an object", describe_json(object)));
  names[*id] = *name;
  return {{"id", *id}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", std::move(object)}}}};
}

Json read_calls(Fields& one, const ServedModel& model, CallNames& names) {
  const Json* json = one.value("tool_calls");
  Json calls = Json::array();
  if (!json) return calls;
  if (!json->is_array()) one.fail("tool_calls", fmt::format("{}, expected a list of calls", describe_json(*json)));
  if (!json->empty()) check_tools(one, "tool_calls", model);
  for (size_t i = 0; i < json->size(); ++i)
    calls.push_back(read_call((*json)[i], fmt::format("{}[{}]", one.place_of("tool_calls"), i), names));
  return calls;
}

Json read_message(const Json& json, const std::string& place, const ServedModel& model, CallNames& names) {
  Fields one(json, place);
  std::string role = one.text("role").value_or("");
  if (role == "developer") role = "system";  // templates know the older name
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    one.fail("role", role.empty()
                         ? "is missing"
                         : fmt::format("{}, expected system, developer, user, assistant or tool", describe_json(role)));
  Json message = {{"role", role}};
  const Json calls = role == "assistant" ? read_calls(one, model, names) : Json::array();
  message["content"] = read_content(one, !calls.empty());
  if (!calls.empty()) message["tool_calls"] = calls;
  if (const auto name = one.text("name")) message["name"] = *name;
  if (role == "tool") {
    check_tools(one, "role", model);
    const auto id = one.text("tool_call_id");
    if (!id) one.fail("tool_call_id", "is missing");
    const auto called = names.find(*id);
    if (called == names.end())
      one.fail("tool_call_id", fmt::format("{}: no message before it made that call", describe_json(*id)));
    message["tool_call_id"] = *id;
    message["name"] = called->second;
  }
  one.refuse("function_call", "give tool_calls");
  one.refuse("audio", "this model reads texts only");
  one.refuse("refusal", "give the refusal as content");
  one.done();
  return message;
}

}  // namespace

Json read_messages(Fields& fields, const ServedModel& model) {
  const Json* json = fields.value("messages");
  if (!json) fields.fail("messages", "is missing");
  if (!json->is_array() || json->empty())
    fields.fail("messages", fmt::format("{}, expected a list of messages",
                                        json->is_array() ? "an empty list" : describe_json(*json)));
  Json messages = Json::array();
  CallNames names;
  for (size_t i = 0; i < json->size(); ++i)
    messages.push_back(read_message((*json)[i], fmt::format("messages[{}]", i), model, names));
  return messages;
}

}  // namespace tern
