#include "formats/hf/generation_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/format_test_support.h"

namespace tern {
namespace {

GenerationConfig parse(std::string_view json) { return parse_generation_config(json, "g.json"); }

TEST(GenerationConfig, ReadsWhatTheModelsMakersWant) {
  // As Llama 3.1 instruct ships it.
  const GenerationConfig g = parse(R"({"bos_token_id":128000,"do_sample":true,"eos_token_id":[128001,128008,128009],
    "temperature":0.6,"top_p":0.9,"transformers_version":"4.42.3"})");
  EXPECT_EQ(g.do_sample, true);
  EXPECT_EQ(g.temperature, 0.6);
  EXPECT_EQ(g.top_p, 0.9);
  EXPECT_EQ(g.top_k, std::nullopt);
  EXPECT_EQ(g.bos_token_id, 128000);
  EXPECT_EQ(g.eos_token_ids, (std::vector<int64_t>{128001, 128008, 128009}));
  EXPECT_TRUE(g.notes.empty());
}

TEST(GenerationConfig, NeutralSettingsAreNoSettings) {
  const GenerationConfig g =
      parse(R"({"num_beams":1,"typical_p":1.0,"no_repeat_ngram_size":0,"bad_words_ids":null,"suppress_tokens":[],
    "epsilon_cutoff":0.0,"guidance_scale":1,"token_healing":false,"min_length":0,"length_penalty":2.0,"early_stopping":true,
    "use_cache":true,"_from_model_config":true,"output_scores":false,"forced_eos_token_id":null,"eos_token_id":null,"temperature":null})");
  EXPECT_EQ(g.temperature, std::nullopt);
  EXPECT_TRUE(g.eos_token_ids.empty());
}

TEST(GenerationConfig, WhatIsWrittenIsReadBack) {
  GenerationConfig g;
  g.do_sample = true;
  g.temperature = 0.7;
  g.top_k = 0;
  g.min_p = 0.05;
  g.repetition_penalty = 1.1;
  g.max_new_tokens = 64;
  g.bos_token_id = 1;
  g.eos_token_ids = {2, 3};
  g.stop_strings = {"\n\n", "é"};
  const GenerationConfig back = parse(generation_config_json(g));
  EXPECT_EQ(generation_config_json(back), generation_config_json(g));
  EXPECT_EQ(back.top_k, 0);
  EXPECT_EQ(back.eos_token_ids, g.eos_token_ids);
  EXPECT_EQ(back.stop_strings, g.stop_strings);
  EXPECT_EQ(generation_config_json({}), "{}\n");
  g.temperature = std::nan("");
  EXPECT_TRUE(throws(ErrorKind::usage, "temperature: nan", [&] { generation_config_json(g); }));
  g.temperature = -1;
  EXPECT_TRUE(throws(ErrorKind::usage, "temperature: -1", [&] { generation_config_json(g); }));
}

TEST(GenerationConfig, EachMalformedOneIsAnErrorThatSaysWhat) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "byte"},
      {"[]", "expected an object"},
      {"null", "null, expected an object"},
      {R"({"temperature":"hot"})", "temperature: \"hot\", expected a number"},
      {R"({"temperature":-0.1})", "temperature: -0.1, expected at least 0"},
      {R"({"temperature":NaN})", "NaN"},
      {R"({"top_p":1.5})", "top_p: 1.5, expected at least 0 and at most 1"},
      {R"({"top_p":-1})", "top_p: -1"},
      {R"({"min_p":2})", "min_p: 2"},
      {R"({"top_k":-1})", "top_k: -1, expected 0 to"},
      {R"({"top_k":50.0})", "top_k: 50.0, expected a whole number"},
      {R"({"top_k":9223372036854775808})", "below 2^63"},
      {R"({"repetition_penalty":0})", "repetition_penalty: 0, expected more than 0"},
      {R"({"do_sample":1})", "do_sample: 1, expected true or false"},
      {R"({"max_new_tokens":0})", "max_new_tokens: 0, expected 1 to"},
      {R"({"max_length":-5})", "max_length: -5"},
      {R"({"max_length":2147483648})", "max_length: 2147483648"},
      {R"({"eos_token_id":"</s>"})", "eos_token_id: \"</s>\", expected token ids"},
      {R"({"eos_token_id":[1,[2]]})", "eos_token_id: a list"},
      {R"({"bos_token_id":[1,2]})", "bos_token_id: a list of 2"},
      {R"({"stop_strings":[1]})", "stop_strings: holds 1, expected strings"},
      {R"({"stop_strings":[""]})", "stop_strings: holds an empty string"},
      {R"({"num_beams":4})", "num_beams: 4, which tern does not have"},
      {R"({"penalty_alpha":0.6})", "penalty_alpha: 0.6, which tern does not have"},
      {R"({"typical_p":0.5})", "typical_p: 0.5, which tern does not have"},
      {R"({"no_repeat_ngram_size":3})", "no_repeat_ngram_size: 3"},
      {R"({"suppress_tokens":[1]})", "suppress_tokens: a list"},
      {R"({"forced_eos_token_id":0})", "forced_eos_token_id: 0"},
      {R"({"dola_layers":"high"})", "dola_layers: \"high\""},
      {R"({"temprature":1})", "unknown key \"temprature\"; did you mean 'temperature'?"},
      {R"({"top_k":1,"top_k":2})", "twice"},
  };
  for (const auto& [json, says] : cases)
    EXPECT_TRUE(throws(ErrorKind::bad_file, says, [&, j = json] { parse(j); })) << json;
}

TEST(GenerationConfig, SaysWhatItDoesNotFollow) {
  EXPECT_EQ(parse(R"({"num_return_sequences":3})").notes.size(), 1u);
  const GenerationConfig g = parse(R"({"pad_token_id":-1,"eos_token_id":[2,-1,2]})");
  EXPECT_EQ(g.pad_token_id, std::nullopt);
  EXPECT_EQ(g.eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(g.notes.size(), 2u);
}

}  // namespace
}  // namespace tern
