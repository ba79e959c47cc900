// adapter_config.json: what is followed, what is refused by name, which adapter a module has. PEFT's own files are in
// model/adapter_files_test.cpp.

#include "formats/peft/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

PeftConfig parsed(const std::string& keys) {
  return parse_peft_config(R"({"peft_type":"LORA",)" + keys + "}", "adapter_config.json");
}
std::string refusal(const std::string& keys) {
  try {
    parsed(keys);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "accepted";
}

constexpr const char* kQuery = "model.layers.3.self_attn.q_proj";

TEST(PeftConfig, HasThreeFormsOfTargets) {
  const PeftConfig names = parsed(R"("target_modules":["q_proj","layers.3.mlp.up_proj"],"r":4,"lora_alpha":6)");
  EXPECT_EQ(peft_adapter_of(names, kQuery)->rank, 4);
  EXPECT_EQ(peft_adapter_of(names, kQuery)->scale, 1.5);
  EXPECT_TRUE(peft_adapter_of(names, "q_proj"));
  EXPECT_FALSE(peft_adapter_of(names, "model.layers.3.self_attn.eq_proj")) << "a name ends a part, not a word";
  EXPECT_TRUE(peft_adapter_of(names, "model.layers.3.mlp.up_proj"));
  EXPECT_FALSE(peft_adapter_of(names, "model.layers.13.mlp.up_proj"));
  const PeftConfig regex = parsed(R"("target_modules":".*\\.[13]\\.self_attn\\.(q|v)_proj")");
  EXPECT_TRUE(peft_adapter_of(regex, kQuery));
  EXPECT_FALSE(peft_adapter_of(regex, "model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(peft_adapter_of(regex, std::string(kQuery) + ".base")) << "the whole path must match";
  const PeftConfig all = parsed(R"("target_modules":"all-linear","exclude_modules":["k_proj"])");
  EXPECT_TRUE(peft_adapter_of(all, kQuery));
  EXPECT_FALSE(peft_adapter_of(all, "model.layers.3.self_attn.k_proj"));
}

TEST(PeftConfig, PatternsOverrideRankAndAlphaOfTheirModules) {
  const PeftConfig c = parsed(
      R"("target_modules":"all-linear","r":4,"lora_alpha":8,"rank_pattern":{"q_proj":16,"layers.3.*":2},"alpha_pattern":{"^model.layers.3.mlp.up_proj":10})");
  EXPECT_EQ(peft_adapter_of(c, kQuery)->rank, 16) << "the first that matches";
  EXPECT_EQ(peft_adapter_of(c, kQuery)->scale, 0.5);
  EXPECT_EQ(peft_adapter_of(c, "model.layers.3.mlp.up_proj")->rank, 2);
  EXPECT_EQ(peft_adapter_of(c, "model.layers.3.mlp.up_proj")->scale, 5);
  EXPECT_EQ(peft_adapter_of(c, "model.layers.4.mlp.up_proj")->rank, 4);
  PeftConfig stabilized = c;
  stabilized.rank_stabilized = true;
  EXPECT_EQ(peft_adapter_of(stabilized, kQuery)->scale, 2);
}

TEST(PeftConfig, LayersToTransformLeaveTheOthersOut) {
  const PeftConfig c = parsed(R"("target_modules":["q_proj"],"layers_to_transform":[1,3])");
  EXPECT_TRUE(peft_adapter_of(c, kQuery));
  EXPECT_FALSE(peft_adapter_of(c, "model.layers.2.self_attn.q_proj"));
  EXPECT_TRUE(peft_adapter_of(parsed(R"("target_modules":["q_proj"],"layers_to_transform":3)"), kQuery));
}

TEST(PeftConfig, WhatIsSetAndNotFollowedIsRefusedByName) {
  const std::string target = R"("target_modules":["q_proj"],)";
  for (const char* key :
       {R"("bias":"all")", R"("modules_to_save":3)", R"("modules_to_save":[""])", R"("lora_bias":true)",
        R"("layers_pattern":"h")", R"("trainable_token_indices":[1])", R"("use_qalora":true)", R"("a_new_key":3)",
        R"("layer_replication":[[0,2]])", R"("init_lora_weights":"pissa_niter_4")", R"("task_type":"SEQ_CLS")",
        R"("r":0)", R"("r":2.5)", R"("lora_alpha":-1)", R"("lora_dropout":1)", R"("rank_pattern":{"q":"4"})"}) {
    const std::string name = std::string(key).substr(1, std::string(key).find('"', 1) - 1);
    EXPECT_NE(refusal(target + key).find(name), std::string::npos) << key << ": " << refusal(target + key);
  }
  for (const char* key : {R"("use_dora":false)", R"("use_dora":true)", R"("bias":"none")", R"("modules_to_save":null)",
                          R"("modules_to_save":["lm_head"])", R"("a_new_key":{})", R"("fan_in_fan_out":true)",
                          R"("init_lora_weights":"gaussian")"})
    EXPECT_EQ(refusal(target + key), "accepted") << key;
  EXPECT_NE(refusal(R"("r":4)").find("target_modules"), std::string::npos);
  EXPECT_NE(refusal(R"("target_modules":[])").find("target_modules"), std::string::npos);
  EXPECT_THROW(parse_peft_config(R"({"peft_type":"IA3","target_modules":["k"]})", "x"), Error);
  EXPECT_THROW(peft_adapter_of(parsed(R"("target_modules":"(q")"), kQuery), Error);
}

TEST(PeftConfig, WrittenAndReadIsTheSame) {
  PeftConfig c = parsed(
      R"("target_modules":"a|b","exclude_modules":["z"],"r":3,"lora_alpha":4.5,"use_rslora":true,"lora_dropout":0.25,)"
      R"("rank_pattern":{"q":5},"alpha_pattern":{"v":0.5},"layers_to_transform":[2],"base_model_name_or_path":"m","modules_to_save":["lm_head","norm"])");
  for (int i = 0; i < 2; ++i) {
    const PeftConfig back = parse_peft_config(peft_config_json(c), "again");
    EXPECT_EQ(back.targets.regex, c.targets.regex);
    EXPECT_EQ(back.targets.names, c.targets.names);
    EXPECT_EQ(back.targets.all_linear, c.targets.all_linear);
    EXPECT_EQ(back.excluded.names, c.excluded.names);
    EXPECT_EQ(back.rank, c.rank);
    EXPECT_EQ(back.alpha, c.alpha);
    EXPECT_EQ(back.rank_stabilized, c.rank_stabilized);
    EXPECT_EQ(back.dropout, c.dropout);
    EXPECT_EQ(back.rank_pattern, c.rank_pattern);
    EXPECT_EQ(back.alpha_pattern, c.alpha_pattern);
    EXPECT_EQ(back.layers, c.layers);
    EXPECT_EQ(back.saved, c.saved);
    EXPECT_EQ(back.base_model, c.base_model);
    c = parsed(R"("target_modules":"all-linear")");
  }
}

}  // namespace
}  // namespace tern
