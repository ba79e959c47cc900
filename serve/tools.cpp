#include "serve/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "infer/chat_prompt.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/tool_grammar.h"
#include "serve/api_error.h"
#include "serve/text_form.h"

namespace tern {
namespace {

constexpr size_t kMostTools = 128, kMostName = 64;

struct Tool {
  std::string name, place;
  const Json* parameters = nullptr;
  bool strict = false;
};

Tool read_tool(const Json& json, const std::string& place) {
  Fields outer(json, place);
  const auto type = outer.text("type");
  if (type != "function")
    outer.fail("type", type ? fmt::format("{}, expected \"function\"", describe_json(*type)) : "is missing");
  const Json* wrapped = outer.value("function");
  if (!wrapped) outer.fail("function", "is missing");
  outer.done();
  Fields function(*wrapped, outer.place_of("function"));
  Tool tool;
  tool.name = function.text("name").value_or("");
  const bool plain = std::ranges::all_of(tool.name, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (tool.name.empty() || tool.name.size() > kMostName || !plain)
    function.fail("name", tool.name.empty() ? "is missing"
                                            : fmt::format("{}, expected up to {} letters, digits, - and _",
                                                          describe_json(tool.name), kMostName));
  function.text("description");
  tool.parameters = function.value("parameters");
  if (tool.parameters && !tool.parameters->is_object())
    function.fail("parameters", fmt::format("{}, expected a JSON Schema", describe_json(*tool.parameters)));
  tool.strict = function.boolean("strict").value_or(false);
  tool.place = function.place_of("parameters");
  function.done();
  return tool;
}

std::vector<Tool> read_list(Fields& fields) {
  const Json* list = fields.value("tools");
  std::vector<Tool> tools;
  if (!list) return tools;
  if (!list->is_array()) fields.fail("tools", fmt::format("{}, expected a list of tools", describe_json(*list)));
  if (list->size() > kMostTools)
    fields.fail("tools", fmt::format("{} of them, expected at most {}", list->size(), kMostTools));
  for (size_t i = 0; i < list->size(); ++i) {
    tools.push_back(read_tool((*list)[i], fmt::format("tools[{}]", i)));
    for (size_t k = 0; k < i; ++k)
      if (tools[k].name == tools[i].name)
        fields.fail(fmt::format("tools[{}].function.name", i),
                    fmt::format("{} is the name of tools[{}] too", quote_json(tools[i].name), k));
  }
  return tools;
}

struct Choice {
  bool none = false, must = false;
  std::string name;  // the one that must be called
};

Choice read_choice(Fields& fields, const std::vector<Tool>& tools) {
  const Json* json = fields.value("tool_choice");
  Choice choice;
  if (!json || *json == "auto") return choice;
  if (*json == "none") return {.none = true};
  if (*json == "required") {
    choice.must = true;
  } else if (json->is_object()) {
    Fields outer(*json, "tool_choice");
    if (const auto type = outer.text("type"); type != "function")
      outer.fail("type", type ? fmt::format("{}, expected \"function\"", describe_json(*type)) : "is missing");
    const Json* function = outer.value("function");
    if (!function) outer.fail("function", "is missing");
    outer.done();
    Fields inner(*function, "tool_choice.function");
    choice.name = inner.text("name").value_or("");
    if (choice.name.empty()) inner.fail("name", "is missing");
    inner.done();
    choice.must = true;
    if (!tools.empty() && std::ranges::none_of(tools, [&](const Tool& t) { return t.name == choice.name; }))
      inner.fail("name", fmt::format("{} is none of the tools", describe_json(choice.name)));
  } else {
    fields.fail("tool_choice",
                fmt::format("{}, expected \"none\", \"auto\", \"required\" or {{\"type\": \"function\", \"function\": "
                            "{{\"name\": …}}}}",
                            describe_json(*json)));
  }
  if (tools.empty()) fields.fail("tool_choice", "is given without tools");
  return choice;
}

std::shared_ptr<Constraint> constraint_of(const ServedModel& model, const std::vector<Tool>& tools,
                                          const Choice& choice, bool several, const Fields& fields) {
  if (!model.tool_texts) fields.fail("tools", model.why_no_texts);
  std::vector<ToolSchema> schemas;
  for (const Tool& tool : tools)
    if (choice.name.empty() || tool.name == choice.name)
      schemas.push_back({tool.name, choice.must || tool.strict ? tool.parameters : nullptr, tool.place});
  const CallRules rules{.several = several && choice.name.empty(), .content = !choice.must};
  for (const ToolSchema& s : schemas) try {  // one by one, so that a refusal names its tool
      gbnf_of_calls(*model.chat->tool_syntax(), {s}, rules);
    } catch (const Error& error) { throw ApiError(400, error.what(), s.place); }
  return std::make_shared<Constraint>(model.tool_texts,
                                      parse_gbnf(gbnf_of_calls(*model.chat->tool_syntax(), schemas, rules), "tools"));
}

}  // namespace

AskedTools read_tools(Fields& fields, const ServedModel& model, Request& r) {
  const std::vector<Tool> tools = read_list(fields);
  const Choice choice = read_choice(fields, tools);
  const bool several = fields.boolean("parallel_tool_calls").value_or(true);
  if (const Json* list = fields.value("functions"); list && !(list->is_array() && list->empty()))
    fields.fail("functions", "is not supported: give tools");
  if (const Json* old = fields.value("function_call"); old && *old != "none" && *old != "auto")
    fields.fail("function_call", "is not supported: give tool_choice");
  AskedTools asked;
  if (tools.empty() || choice.none) return asked;
  if (!model.chat->tool_syntax()) fields.fail("tools", fmt::format("is not supported: {}", model.chat->why_no_tools()));
  if (r.constraint) fields.fail(field_of_text_form(fields), "is given together with tools; give one of them");
  const bool strict = std::ranges::any_of(tools, [](const Tool& t) { return t.strict; });
  if (choice.must || strict || !several) r.constraint = constraint_of(model, tools, choice, several, fields);
  for (const Tool& tool : tools)
    if (choice.name.empty() || tool.name == choice.name) asked.names.push_back(tool.name);
  asked.shown = fields.value("tools");
  r.spoken = model.tool_marks;
  return asked;
}

}  // namespace tern
