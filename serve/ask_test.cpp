// What a request may say, and how it is refused.
#include "serve/ask.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "infer/constrain/constraint.h"
#include "serve/client_testing.h"
#include "serve/fields.h"

namespace tern {
namespace {

constexpr uint32_t kAskSeed = 20261123;

struct AskRig {
  ModelDescription model = describe_model(source_dir() + "/examples/novels-6m", std::nullopt);
  std::optional<ChatPrompt> chat;
  ServedModel served;
  AskRig() {
    const std::string file = testing::TempDir() + "ask_template.jinja";
    write_file_atomically(real_io(), file,
                          "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    chat.emplace(model.dir.path, file, *model.tokenizer);
    served.name = "novels";
    served.tokenizer = &*model.tokenizer;
    served.vocab = model.spec.vocab, served.context = 512, served.width = model.spec.width;
    served.sampling.temperature = 1;
    served.chat = &*chat;
    served.longest_text = 64;
    served.texts = std::make_shared<const TokenTexts>(token_texts(*model.tokenizer, model.spec.vocab));
  }
};

enum class Kind { chat, completion, embedding, tokenize, detokenize };
void read(Kind kind, const Json& body, const ServedModel& model) {
  switch (kind) {
    case Kind::chat:
      read_chat(body, model, 1);
      break;
    case Kind::completion:
      read_completion(body, model, 1);
      break;
    case Kind::embedding:
      read_embeddings(body, model);
      break;
    case Kind::tokenize:
      tokenize_reply(body, model);
      break;
    case Kind::detokenize:
      detokenize_reply(body, model);
      break;
  }
}

// Every field once, with a value that is fine.
const std::pair<Kind, const char*> kFine[] = {
    {Kind::chat,
     R"({"model":"novels","messages":[{"role":"system","content":"a","name":"x"},{"role":"user","content":[{"type":"text","text":"b"}]}],
"temperature":0.5,"top_p":0.5,"top_k":3,"min_p":0.1,"repetition_penalty":1.1,"presence_penalty":0.1,"frequency_penalty":0.1,
"logit_bias":{"5":1},"seed":3,"n":2,"stop":["x"],"ignore_eos":true,"return_token_ids":true,"stream":true,
"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":5,"logprobs":true,"top_logprobs":2,
"chat_template_kwargs":{"a":1},"response_format":{"type":"json_object"},"modalities":["text"]})"},
    {Kind::completion,
     R"({"model":"novels","prompt":"ab","temperature":0.5,"top_p":0.5,"top_k":3,"min_p":0.1,"repetition_penalty":1.1,
"presence_penalty":0.1,"frequency_penalty":0.1,"logit_bias":{"5":1},"seed":3,"n":2,"stop":"x","ignore_eos":true,
"return_token_ids":true,"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"logprobs":2,"best_of":2,
"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"integer"}}}})"},
    {Kind::completion, R"({"prompt":"ab","max_tokens":5,"grammar":"root ::= [a-z]+ \"!\""})"},
    {Kind::embedding, R"({"model":"novels","input":["a","b"],"encoding_format":"float","dimensions":256})"},
    {Kind::tokenize, R"({"model":"novels","prompt":"a","add_special_tokens":false,"return_token_strs":true})"},
    {Kind::detokenize, R"({"model":"novels","tokens":[5,6]})"}};

// A refusal names the field: "logit_bias.5" and "stop[0]" name their list, and "x.y" names what lies in x.
testing::AssertionResult refused(Kind kind, const Json& body, const std::string& field, const ServedModel& model) {
  try {
    read(kind, body, model);
  } catch (const ApiError& e) {
    if (e.status < 400 || e.status > 499) return testing::AssertionFailure() << "status " << e.status;
    if (!e.param.starts_with(field))
      return testing::AssertionFailure() << "param '" << e.param << "', message: " << e.what();
    if (std::string(e.what()).find(field) == std::string::npos)
      return testing::AssertionFailure() << "message: " << e.what();
    const Json json = parse_json(error_body(e), "an error");
    return json["error"]["param"] == e.param ? testing::AssertionSuccess() : testing::AssertionFailure() << json;
  }
  return testing::AssertionFailure() << "taken: " << body;
}

TEST(Ask, FineRequestsAreTaken) {
  AskRig rig;
  for (const auto& [kind, text] : kFine) EXPECT_NO_THROW(read(kind, parse_json(text, ""), rig.served)) << text;
}

// Each field gets values of another kind or out of its range, each name a typing mistake.
TEST(Ask, AThousandMalformedRequestsAreRefusedByTheNameOfTheField) {
  AskRig rig;
  int count = 0;
  for (const auto& [kind, text] : kFine) {
    const Json fine = parse_json(text, "");
    for (const auto& [name, value] : fine.items()) {
      const bool number = value.is_number(), flag = value.is_boolean(), list = value.is_array(),
                 object = value.is_object();
      std::vector<Json> wrong;
      for (const Json& w : std::initializer_list<Json>{"nonsense",
                                                       "",
                                                       0.5,
                                                       -7,
                                                       1e300,
                                                       true,
                                                       false,
                                                       Json::array(),
                                                       Json::object(),
                                                       Json::array({Json::object()}),
                                                       Json::array({Json::array()}),
                                                       Json::array({true}),
                                                       {{"nonsense", 1}},
                                                       INT64_MIN,
                                                       UINT64_MAX,
                                                       Json::array({-1}),
                                                       Json::array({1 << 30}),
                                                       Json::array({""})}) {
        if (flag && w.is_boolean()) continue;
        if (w.is_object() && name == "chat_template_kwargs") continue;
        if (w == Json::object() && (name == "logit_bias" || name == "stream_options")) continue;
        if (name == "stop" && (w.is_string() || w == Json::array()) && w != "") continue;
        if ((name == "prompt" || name == "input") && w.is_string()) continue;
        if (w == Json::array({""}) && name == "prompt") continue;
        if (name == "tokens" && w == Json::array()) continue;
        if (name == "grammar" && w == "") continue;
        if (name == "seed" && w.is_number_integer() && w != UINT64_MAX) continue;
        if (number && w == 0.5 && !value.is_number_integer()) continue;
        if ((name == "presence_penalty" || name == "frequency_penalty") && w == 0.5) continue;
        if (name == "repetition_penalty" && w == 0.5) continue;
        (void)list, (void)object;
        wrong.push_back(w);
      }
      for (const Json& w : wrong) {
        Json body = fine;
        body[name] = w;
        // A stream that is turned off, or log-probabilities, leave another field without a meaning.
        EXPECT_TRUE(refused(kind, body, name, rig.served)) << name << ": " << w;
        ++count;
      }
      for (size_t at = 0; at < name.size(); ++at) {
        std::string typo = name;
        typo.erase(at, 1);
        if (typo.empty() || fine.contains(typo) || typo == "stop") continue;
        Json body = fine;
        body[typo] = value;
        EXPECT_TRUE(refused(kind, body, typo, rig.served));
        ++count;
      }
    }
    for (const Json& whole : std::initializer_list<Json>{1, "x", true, nullptr, Json::array()}) {
      EXPECT_THROW(read(kind, whole, rig.served), ApiError);
      ++count;
    }
  }
  EXPECT_GE(count, 1000);
}

TEST(Ask, WhatIsNestedIsNamedByItsPlace) {
  AskRig rig;
  const std::tuple<Kind, const char*, const char*> cases[] = {
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"},{"role":"pirate","content":"b"}]})",
       "messages[1].role"},
      {Kind::chat, R"({"messages":[{"content":"b"}]})", "messages[0].role"},
      {Kind::chat, R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a","contents":"b"}]})", "messages[0].contents"},
      {Kind::chat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content[0].type"},
      {Kind::chat, R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
      {Kind::chat, R"({"messages":[{"role":"tool","content":"a"}]})", "messages[0].role"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}]})", "tools"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema"}})",
       "response_format.json_schema"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"yaml"}})",
       "response_format.type"},
      {Kind::completion,
       R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"pattern":"a"}}}})",
       "response_format.json_schema.schema"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":2})", "top_logprobs"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"max_tokens":2,"max_completion_tokens":3})",
       "max_tokens"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"stream_options":{"include_usage":true}})",
       "stream_options"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"reasoning_effort":"low"})", "reasoning_effort"},
      {Kind::completion, R"({"prompt":"a","echo":true,"logprobs":1})", "logprobs"},
      {Kind::completion, R"({"prompt":"a","suffix":"b"})", "suffix"},
      {Kind::completion, R"({"prompt":"a","grammar":"root ::= missing"})", "grammar"},
      {Kind::completion, R"({"prompt":"a","grammar":"root ::= \"a\"","response_format":{"type":"json_object"}})",
       "grammar"},
      {Kind::chat, R"({"messages":[{"role":"user","content":"a"}],"grammar":{"root":"a"}})", "grammar"},
      {Kind::completion, R"({"prompt":"a","n":3,"best_of":2})", "best_of"},
      {Kind::completion, R"({"prompt":"a","best_of":2,"stream":true})", "best_of"},
      {Kind::completion, R"({"prompt":[1,2,5000]})", "prompt[2]"},
      {Kind::completion, R"({"prompt":["a",[1,-2]]})", "prompt[1][1]"},
      {Kind::completion, R"({"prompt":"a","logit_bias":{"5":101}})", "logit_bias.5"},
      {Kind::completion, R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias"},
      {Kind::completion, R"({})", "prompt"},
      {Kind::completion, R"({"prompt":"a","model":"gpt-4"})", "model"},
      {Kind::embedding, R"({"input":"a","dimensions":100})", "dimensions"},
      {Kind::embedding, R"({"input":[]})", "input"},
      {Kind::tokenize, R"({"prompt":"a","messages":[]})", "messages"}};
  for (const auto& [kind, text, field] : cases)
    EXPECT_TRUE(refused(kind, parse_json(text, ""), field, rig.served)) << text;
}

TEST(Ask, NothingIsCutAndBothLengthsAreTold) {
  AskRig rig;
  rig.served.context = 20;
  const auto message = [&](const Json& body) -> std::string {
    try {
      read_completion(body, rig.served, 1);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.code, "context_length_exceeded");
      return e.what();
    }
    return "";
  };
  const Json twenty = std::vector<int>(20, 5), ten = std::vector<int>(10, 5);
  EXPECT_EQ(message({{"prompt", twenty}}),
            "prompt: has 20 tokens, the context holds 20, which leaves no room to write; shorten it (nothing is cut)");
  EXPECT_EQ(message({{"prompt", ten}, {"max_tokens", 11}}),
            "max_tokens: 11 tokens behind the 10 of prompt, the context holds 20; ask for 10 at most");
  EXPECT_EQ(read_completion({{"prompt", ten}, {"max_tokens", 10}}, rig.served, 1).prompts[0].max_tokens, 10);
  EXPECT_EQ(read_completion({{"prompt", ten}}, rig.served, 1).prompts[0].max_tokens, 10)
      << "OpenAI's 16, as far as there is room";
  rig.served.longest_text = 5;
  EXPECT_TRUE(
      refused(Kind::embedding, {{"input", {"a", "one two three four five six seven eight"}}}, "input[1]", rig.served));
}

TEST(Ask, NullIsAsIfItWereNotThere) {
  AskRig rig;
  const Json body = parse_json(
      R"({"messages":[{"role":"user","content":"a","name":null}],"tools":null,"tool_choice":null,"stop":null,"seed":null,
"temperature":null,"stream":null,"stream_options":null,"logprobs":null,"user":"someone","metadata":{"a":"b"}})",
      "");
  const Asked asked = read_chat(body, rig.served, 77);
  EXPECT_EQ(asked.seed, 77u);
  EXPECT_EQ(asked.prompts[0].sampling.temperature, 1);
  EXPECT_EQ(asked.prompts[0].max_tokens, 512 - static_cast<int64_t>(asked.prompts[0].prompt.size()));
}

TEST(Ask, AGrammarOfARequestIsReadAndBounded) {
  AskRig rig;
  const auto asked = [&](const std::string& grammar) {
    return read_completion({{"prompt", "a"}, {"grammar", grammar}}, rig.served, 1).prompts[0].constraint;
  };
  EXPECT_EQ(asked(""), nullptr) << "as llama.cpp's server: none";
  const auto constraint = asked("root ::= \"a\"{1000}");
  ASSERT_NE(constraint, nullptr);
  const auto nodes = constraint->grammar_bytes() / static_cast<int64_t>(sizeof(GrammarNode));
  EXPECT_GE(nodes, 1000);
  EXPECT_LT(nodes, 1010);
  const auto why = [&](const std::string& grammar) -> std::string {
    try {
      asked(grammar);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status, 400);
      EXPECT_EQ(e.param, "grammar");
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(why("root ::= \"a\"\n  | b"), "grammar: rule 'b' is used and not there");
  EXPECT_EQ(why("root ::= \"a\"\nb ::= ("), "grammar: line 2: expected )");
  EXPECT_NE(why("root ::= \"" + std::string(70'000, 'a') + "\"").find("expected at most 65536"), std::string::npos);
  EXPECT_NE(why("root ::= (\"ab\"{1000}){1000}").find("262144 states"), std::string::npos);
  rig.served.texts = nullptr, rig.served.why_no_texts = "its tokens have no texts";
  EXPECT_EQ(why("root ::= \"a\""), "grammar: its tokens have no texts");
}

// Bytes changed, lost, doubled: a request is read or refused as one, and nothing else happens.
TEST(Ask, TenThousandMutationsOfBodiesAreReadOrRefused) {
  AskRig rig;
  std::mt19937 random(kAskSeed);
  int refusals = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto& [kind, fine] = kFine[random() % std::size(kFine)];
    std::string text = fine;
    for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size(), length = 1 + random() % 8;
      static constexpr std::string_view kPieces[] = {
          "\"",      "{",    "}",    "[",          "]", ",", ":", "null", "-1", "1e999", "9223372036854775808",
          "\\u0000", "\xff", "true", "\"\\ud800\""};
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(at, length));
          break;
        default:
          text.insert(at, kPieces[random() % std::size(kPieces)]);
      }
      if (text.empty()) text = "x";
    }
    try {
      read(kind, parse_json(text, "the request body"), rig.served);
    } catch (const ApiError& e) {
      EXPECT_TRUE(e.status == 400 || e.status == 404);
      EXPECT_NO_THROW(parse_json(error_body(e), ""));
      ++refusals;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file) << "seed " << kAskSeed << ", mutation " << i;
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 5000);
}

}  // namespace
}  // namespace tern
