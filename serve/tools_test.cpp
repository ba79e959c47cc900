// Calls of tools through the interface: every row of docs/serve.md's table of tools.
#include "serve/tools.h"

#include <gtest/gtest.h>

#include "formats/chat/tool_templates_testing.h"
#include "infer/constrain/constraint.h"
#include "serve/api_error.h"
#include "serve/ask.h"
#include "serve/client_testing.h"

namespace tern {
namespace {

const Json kTools = parse_json(
    R"([{"type":"function","function":{"name":"weather","description":"Weather of a place.","parameters":{"type":"object",
"properties":{"place":{"type":"string","maxLength":8}},"required":["place"]}}},
{"type":"function","function":{"name":"light","parameters":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}}}])",
    "");

// novels-6m under a template that knows tools; or a model that writes a given text, whatever it is asked.
struct ToolsRig {
  Novels novels;
  std::optional<ChatPrompt> chat;
  std::vector<int32_t> script;
  Arena arena;
  explicit ToolsRig(const std::string& text) {
    const std::string file =
        testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".jinja";
    write_file_atomically(real_io(), file, text);
    chat.emplace(novels.model.dir.path, file, *novels.model.tokenizer);
    novels.served.chat = &*chat;
    novels.served.sampling.temperature = 1;
    novels.served.texts =
        std::make_shared<const TokenTexts>(token_texts(*novels.model.tokenizer, novels.model.spec.vocab));
    take_tool_marks(novels.served);
  }
  explicit ToolsRig(const ToolTemplate& t = kHermesTemplate) : ToolsRig(t.text) {}
  void say(const std::string& text) { script = novels.model.tokenizer->encode(text, {.add_special = false}); }
  BatchExecutor executor() {
    if (script.empty()) return novels.executor();
    return [this](const Batch& batch, const KvPool&) {
      const auto vocab = static_cast<size_t>(novels.served.vocab);
      const auto logits = std::make_shared<std::vector<float>>();
      for (const Work& work : batch) {
        if (!work.wants_logits) continue;
        logits->resize(logits->size() + vocab);
        const auto at = static_cast<size_t>(work.begin + work.count - work.sequence->prompt_tokens);
        const int32_t id = at < script.size() ? script[at] : novels.served.ends.at(0);
        (*logits)[logits->size() - vocab + static_cast<size_t>(id)] = 200;
      }
      return Tensor::borrow(DType::f32, {static_cast<int64_t>(logits->size() / vocab), static_cast<int64_t>(vocab)},
                            logits->data(), logits);
    };
  }
  std::unique_ptr<ServedRig> serve() {
    return std::make_unique<ServedRig>(novels.served, novels.shape(), executor(), ServedRig::Setup{}, arena);
  }
};

Json body_of(const Json& more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Rome?"}}}}, {"tools", kTools}};
  body.update(more);
  return body;
}
Json ask(ToolsRig& rig, const Json& body) {
  const ClientReply r = rig.serve()->ask("POST", "/v1/chat/completions", dump_json(body));
  EXPECT_EQ(r.status, 200) << r.body;
  return r.json();
}

constexpr const char* kCall =
    "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": "
    "\"Rom\"}}\n</tool_call>\n<tool_call>\n{\"name\": "
    "\"light\", \"arguments\": {\"on\": true}}\n</tool_call>";

TEST(Tools, AnAnswerIsReadAsContentAndCalls) {
  ToolsRig rig;
  rig.say(kCall);
  const Json choice = ask(rig, body_of())["choices"][0], message = choice["message"];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(message["content"], "I look.");
  ASSERT_EQ(message["tool_calls"].size(), 2u) << message;
  const Json call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"], (Json{{"name", "weather"}, {"arguments", "{\"place\": \"Rom\"}"}}));
  EXPECT_EQ(call["id"].get<std::string>().substr(0, 5), "call_");
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{\"on\": true}");
}

TEST(Tools, EachFormOfATemplateIsRead) {
  const std::pair<const ToolTemplate*, const char*> forms[] = {
      {&kLlamaTemplate, "{\"name\": \"weather\", \"parameters\": {\"place\": \"Rom\"}}"},
      {&kMistralListTemplate, "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"place\": \"Rom\"}}]"},
      {&kMistralNamedTemplate, "[TOOL_CALLS]weather[ARGS]{\"place\": \"Rom\"}"}};
  for (const auto& [form, text] : forms) {
    ToolsRig rig(*form);
    rig.say(text);
    const Json message = ask(rig, body_of())["choices"][0]["message"];
    EXPECT_EQ(message["content"], nullptr) << text;
    ASSERT_EQ(message["tool_calls"].size(), 1u) << message;
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"place\": \"Rom\"}");
    if (form->form != ToolForm::bare) { EXPECT_EQ(message["tool_calls"][0]["id"].get<std::string>().size(), 9u); }
  }
}

TEST(Tools, AStreamHasTheCallsPieceByPiece) {
  ToolsRig rig;
  rig.say(kCall);
  Json body = body_of({{"stream", true}, {"logprobs", true}});
  const auto served = rig.serve();
  Client client(served->service.port());
  ASSERT_EQ(client.ask("POST", "/v1/chat/completions", dump_json(body)).status, 200);
  std::string content, reason;
  std::vector<Json> calls;
  size_t pieces = 0, tokens = 0;
  for (const std::string& data : sse_data(client.rest_of_stream())) {
    if (data == "[DONE]") continue;
    const Json choice = parse_json(data, "")["choices"][0], delta = choice["delta"];
    if (delta.contains("content") && !delta["content"].is_null()) content += delta["content"];
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
    tokens += choice["logprobs"]["content"].size();
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const auto index = call["index"].get<size_t>();
      if (index == calls.size()) {
        EXPECT_TRUE(call.contains("id") && call["type"] == "function") << call;
        calls.push_back(call);
        continue;
      }
      ASSERT_EQ(index + 1, calls.size());
      EXPECT_FALSE(call.contains("id") || call["function"].contains("name")) << "told once";
      calls.back()["function"]["arguments"] =
          calls.back()["function"]["arguments"].get<std::string>() + call["function"]["arguments"].get<std::string>();
      ++pieces;
    }
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_EQ(tokens, rig.script.size());
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_GT(pieces, 4u) << "arguments come as they are written";
  EXPECT_EQ(calls[0]["function"], (Json{{"name", "weather"}, {"arguments", "{\"place\": \"Rom\"}"}}));
  EXPECT_EQ(calls[1]["function"]["arguments"], "{\"on\": true}");
}

TEST(Tools, NoneMeansTextAndShowsTheModelNoTools) {
  ToolsRig rig;
  rig.say(kCall);
  const Json with = ask(rig, body_of()), none = ask(rig, body_of({{"tool_choice", "none"}}));
  EXPECT_EQ(none["choices"][0]["message"]["content"], kCall);
  EXPECT_FALSE(none["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(none["choices"][0]["finish_reason"], "stop");
  EXPECT_LT(none["usage"]["prompt_tokens"].get<int>(), with["usage"]["prompt_tokens"].get<int>());
}

// novels-6m has never seen a tool: what it writes is a call all the same.
TEST(Tools, RequiredAndNamedCallsSatisfyTheirSchemas) {
  for (const ToolTemplate* form : kToolTemplates) {
    ToolsRig rig(*form);
    const auto served = rig.serve();
    for (int seed = 0; seed < 6; ++seed) {
      const bool named = seed % 2 == 0;
      Json body = body_of({{"seed", seed}, {"max_tokens", 150}, {"parallel_tool_calls", false}});
      body["tool_choice"] = named ? Json{{"type", "function"}, {"function", {{"name", "light"}}}} : Json("required");
      const ClientReply r = served->ask("POST", "/v1/chat/completions", dump_json(body));
      ASSERT_EQ(r.status, 200) << r.body;
      const Json choice = r.json()["choices"][0];
      EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
      EXPECT_EQ(choice["message"]["content"], nullptr);
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
      const Json function = choice["message"]["tool_calls"][0]["function"];
      const Json arguments = parse_json(function["arguments"].get<std::string>(), "");
      if (named) { EXPECT_EQ(function["name"], "light"); }
      EXPECT_TRUE(function["name"] == "light" ? arguments["on"].is_boolean() : arguments["place"].is_string());
    }
  }
}

// Of a tool that is strict no other call comes out, even where none is asked for; with parallel_tool_calls off one at most.
TEST(Tools, StrictToolsAndSingleCallsAreKeptWhereTheModelMayChoose) {
  ToolsRig rig;
  rig.say("Hm.<tool_call>\n{\"name\": \"light\", \"arguments\": {\"on\": \"yes\"}}\n</tool_call>");
  Json body = body_of({{"temperature", 0}, {"max_tokens", 100}});
  EXPECT_EQ(ask(rig, body)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"on\": \"yes\"}");
  body["tools"][1]["function"]["strict"] = true;
  const Json kept = ask(rig, body)["choices"][0]["message"];
  EXPECT_EQ(kept["content"], "Hm.");
  const Json arguments = parse_json(kept["tool_calls"][0]["function"]["arguments"].get<std::string>(), "");
  EXPECT_TRUE(arguments["on"].is_boolean()) << kept;
  rig.say(kCall);
  const Json one = ask(rig, body_of({{"parallel_tool_calls", false}, {"temperature", 0}}))["choices"][0];
  EXPECT_EQ(one["message"]["tool_calls"].size(), 1u) << one;
  EXPECT_EQ(one["finish_reason"], "tool_calls");
}

TEST(Tools, AnAnswerCutInACallSaysSo) {
  ToolsRig rig;
  rig.say(kCall);
  const Json choice = ask(rig, body_of({{"max_tokens", static_cast<int>(rig.script.size()) - 8}}))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_GE(choice["message"]["tool_calls"].size(), 1u) << choice;
}

TEST(Tools, AConversationGoesOnWithWhatTheToolSaid) {
  ToolsRig rig;
  Json body = body_of();
  body["messages"].push_back({{"role", "assistant"},
                              {"content", nullptr},
                              {"tool_calls",
                               {{{"id", "call_1"},
                                 {"type", "function"},
                                 {"function", {{"name", "weather"}, {"arguments", "{\"place\":\"Rom\"}"}}}}}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "sunny"}});
  const Asked asked = read_chat(body, rig.novels.served, 1);
  const std::string prompt = rig.novels.model.tokenizer->decode(asked.prompts[0].prompt);
  EXPECT_NE(prompt.find("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Rom\"}}\n</tool_call>"),
            std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("<tool_response>\nsunny\n</tool_response>"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("Weather of a place."), std::string::npos) << prompt;
}

TEST(Tools, WhatIsWrongIsNamed) {
  ToolsRig rig, plain("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
  const auto refused = [](ToolsRig& r, const Json& body) -> std::pair<std::string, std::string> {
    try {
      read_chat(body, r.novels.served, 1);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status, 400);
      return {e.param, e.what()};
    }
    return {"taken", dump_json(body)};
  };
  EXPECT_EQ(refused(plain, body_of()).first, "tools");
  EXPECT_NE(refused(plain, body_of()).second.find("has no place for tools"), std::string::npos);
  Json turn = body_of();
  turn["messages"].push_back({{"role", "tool"}, {"tool_call_id", "x"}, {"content", "a"}});
  EXPECT_EQ(refused(plain, turn).first, "messages[1].role");
  EXPECT_EQ(refused(rig, turn).first, "messages[1].tool_call_id");
  Json called = body_of();
  called["messages"].push_back(parse_json(
      R"({"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"light","arguments":"{\"on\":"}}]})",
      ""));
  EXPECT_EQ(refused(rig, called).first, "messages[1].tool_calls[0].function.arguments");
  called["messages"][1]["tool_calls"][0]["function"]["arguments"] = "[1]";
  EXPECT_EQ(refused(rig, called).first, "messages[1].tool_calls[0].function.arguments");
  called["messages"][1]["tool_calls"][0]["function"].erase("arguments");
  EXPECT_EQ(refused(rig, called).first, "messages[1].tool_calls[0].function.arguments");
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"/tools/0/type", "web_search", "tools[0].type"},
      {"/tools/0/function/name", "a b", "tools[0].function.name"},
      {"/tools/0/function/name", "light", "tools[1].function.name"},
      {"/tools/0/function/parameters", 3, "tools[0].function.parameters"},
      {"/tools/0/function/extra", 3, "tools[0].function.extra"},
      {"/tools", 3, "tools"},
      {"/tool_choice", "any", "tool_choice"},
      {"/tool_choice", {{"type", "function"}, {"function", {{"name", "dark"}}}}, "tool_choice.function.name"},
      {"/tool_choice", {{"type", "allowed_tools"}}, "tool_choice.type"},
      {"/parallel_tool_calls", "no", "parallel_tool_calls"},
      {"/functions", Json::array({1}), "functions"},
      {"/function_call", {{"name", "light"}}, "function_call"},
      {"/grammar", "root ::= [a-z]+", "grammar"},
      {"/response_format", {{"type", "json_object"}}, "response_format"}};
  for (const auto& [at, value, field] : cases) {
    Json body = body_of();
    body[Json::json_pointer(at)] = value;
    EXPECT_EQ(refused(rig, body).first, field) << refused(rig, body).second;
  }
  Json odd = body_of();
  odd["tools"][0]["function"]["parameters"]["properties"]["place"]["pattern"] = "^a";
  EXPECT_EQ(refused(rig, odd).first, "taken") << "the model is only shown it";
  odd["tool_choice"] = "required";
  EXPECT_EQ(refused(rig, odd).first, "tools[0].function.parameters");
  EXPECT_NE(refused(rig, odd).second.find("pattern"), std::string::npos);
  Json none = body_of();
  none.erase("tools");
  none["tool_choice"] = "required";
  EXPECT_EQ(refused(rig, none).first, "tool_choice");
}

}  // namespace
}  // namespace tern
