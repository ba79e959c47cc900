#include "formats/sentence_config.h"

#include "base/system.h"
#include "formats/format_test_support.h"

namespace tern {
namespace {

struct Files {
  std::string modules = R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},)"
                        R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},)"
                        R"({"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}])";
  std::string pooling =
      R"({"word_embedding_dimension":384,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true})";
  std::string bert = R"({"max_seq_length":256,"do_lower_case":false})";
  std::string prompts = R"({"prompts":{"query":"query: ","passage":""},"default_prompt_name":null})";
};

std::optional<SentenceConfig> read(const Files& f) {
  return parse_sentence_config("dir", [&](const std::string& name) -> std::optional<std::string> {
    const std::string& text = name == "modules.json"                        ? f.modules
                              : name == "1_Pooling/config.json"             ? f.pooling
                              : name == "sentence_bert_config.json"         ? f.bert
                              : name == "config_sentence_transformers.json" ? f.prompts
                                                                            : std::string();
    return text.empty() ? std::nullopt : std::optional(text);
  });
}

TEST(SentenceConfig, ReadsBothFormsOfTheFiles) {
  const SentenceConfig old = read({}).value();
  EXPECT_EQ(old.pooling, Pooling::mean);
  EXPECT_TRUE(old.normalize);
  EXPECT_EQ(old.max_tokens, 256);
  EXPECT_EQ(old.prefix, "");
  ASSERT_EQ(old.notes.size(), 1U);
  EXPECT_NE(old.notes[0].find("query: "), std::string::npos);
  const SentenceConfig now =
      read({.modules = R"([{"type":"a.b.Transformer","path":""},{"type":"c.Pooling","path":"1_Pooling"}])",
            .pooling = R"({"embedding_dimension":8,"pooling_mode":"lasttoken","include_prompt":true})",
            .bert = "",
            .prompts = R"({"prompts":{"q":"search: "},"default_prompt_name":"q"})"})
          .value();
  EXPECT_EQ(now.pooling, Pooling::last);
  EXPECT_FALSE(now.normalize);
  EXPECT_FALSE(now.max_tokens);
  EXPECT_EQ(now.prefix, "search: ");
  EXPECT_FALSE(read({.modules = "", .pooling = "", .bert = "", .prompts = ""}));
  EXPECT_EQ(read({.modules = "", .pooling = R"({"pooling_mode_cls_token":true})", .bert = "", .prompts = ""})->pooling,
            Pooling::cls);
}

TEST(SentenceConfigMalformed, SaysWhatIsWrong) {
  const auto expect = [](const char* want, const std::function<void(Files&)>& change) {
    Files f;
    change(f);
    EXPECT_TRUE(throws(ErrorKind::bad_file, want, [&] { read(f); }));
  };
  expect("expected a list", [](auto& f) { f.modules = "{}"; });
  expect("no Pooling", [](auto& f) { f.modules = R"([{"type":"Transformer","path":""}])"; });
  expect("\"Dense\" as module 2", [](auto& f) { f.modules.replace(f.modules.rfind("Normalize\"}"), 9, "Dense"); });
  expect("has no type", [](auto& f) { f.modules = R"([{"path":""}])"; });
  expect("leads out of the directory",
         [](auto& f) { f.modules = R"([{"type":"Transformer","path":""},{"type":"Pooling","path":"../1_Pooling"}])"; });
  expect("give that folder as MODEL", [](auto& f) { f.modules = R"([{"type":"Transformer","path":"0_T"}])"; });
  expect("two poolings at once",
         [](auto& f) { f.pooling = R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})"; });
  expect("which tern does not have", [](auto& f) { f.pooling = R"({"pooling_mode":"attention"})"; });
  expect("a pooling tern does not have",
         [](auto& f) { f.pooling = R"({"pooling_mode_mean_tokens":true,"pooling_mode_new":true})"; });
  expect("no pooling is named", [](auto& f) { f.pooling = "{}"; });
  expect("expected true or false", [](auto& f) { f.pooling = R"({"pooling_mode_cls_token":1})"; });
  expect("1_Pooling/config.json", [](auto& f) { f.pooling = ""; });
  expect("max_seq_length", [](auto& f) { f.bert = R"({"max_seq_length":0})"; });
  expect("do_lower_case", [](auto& f) { f.bert = R"({"do_lower_case":true})"; });
  expect("is none of prompts", [](auto& f) { f.prompts = R"({"prompts":{},"default_prompt_name":"q"})"; });
  expect("expected a text", [](auto& f) { f.prompts = R"({"prompts":{"q":3}})"; });
  expect("include_prompt", [](auto& f) {
    f.pooling = R"({"pooling_mode_mean_tokens":true,"include_prompt":false})";
    f.prompts = R"({"prompts":{"q":"x"},"default_prompt_name":"q"})";
  });
}

TEST(SentenceConfigMutationsSlow, LoadOrAreErrorsWithinBoundedMemory) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = !kSanitized && reset_peak_resident();
  int loaded = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    Files f;
    std::string* const all[] = {&f.modules, &f.pooling, &f.bert, &f.prompts};
    std::string& one = *all[random() % 4];
    one = mutate(one, random);
    if (one.empty()) one = " ";
    try {
      read(f);
      ++loaded;
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::bad_file) << error.what();
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
  if (kSanitized) return;  // what is freed is kept there
  if (!reset) GTEST_SKIP() << "this kernel does not let a process forget its peak memory";
  EXPECT_LE(read_process_memory().peak_resident_bytes - before, 64 << 20);
}

}  // namespace
}  // namespace tern
