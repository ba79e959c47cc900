#include "formats/hf/sentence_config.h"

#include "formats/mutations_testing.h"

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
  std::string normalize = "";
};

std::optional<SentenceConfig> read_files(const Files& f) {
  return parse_sentence_config("dir", [&](const std::string& name) -> std::optional<std::string> {
    const std::string& text = name == "modules.json"                        ? f.modules
                              : name == "1_Pooling/config.json"             ? f.pooling
                              : name == "2_Normalize/config.json"           ? f.normalize
                              : name == "sentence_bert_config.json"         ? f.bert
                              : name == "config_sentence_transformers.json" ? f.prompts
                                                                            : std::string();
    return text.empty() ? std::nullopt : std::optional(text);
  });
}

TEST(SentenceConfig, ReadsBothFormsOfTheFiles) {
  const SentenceConfig old = read_files({}).value();
  EXPECT_EQ(old.pooling, Pooling::mean);
  EXPECT_TRUE(old.normalize);
  EXPECT_EQ(old.max_tokens, 256);
  EXPECT_EQ(old.prefix, "");
  ASSERT_EQ(old.notes.size(), 1U);
  EXPECT_NE(old.notes[0].find("query: "), std::string::npos);
  const SentenceConfig now =
      read_files({.modules = R"([{"type":"a.b.Transformer","path":""},{"type":"c.Pooling","path":"1_Pooling"}])",
                  .pooling = R"({"embedding_dimension":8,"pooling_mode":"lasttoken","include_prompt":true})",
                  .bert = "",
                  .prompts = R"({"prompts":{"q":"search: "},"default_prompt_name":"q"})"})
          .value();
  EXPECT_EQ(now.pooling, Pooling::last);
  EXPECT_FALSE(now.normalize);
  EXPECT_FALSE(now.max_tokens);
  EXPECT_EQ(now.prefix, "search: ");
  EXPECT_FALSE(read_files({.modules = "", .pooling = "", .bert = "", .prompts = ""}));
  EXPECT_EQ(
      read_files({.modules = "", .pooling = R"({"pooling_mode_cls_token":true})", .bert = "", .prompts = ""})->pooling,
      Pooling::cls);
}

// As sentence-transformers 6.2 saves a model (observed).
TEST(SentenceConfig, ReadsWhatTheNewestReleaseWrites) {
  const SentenceConfig c =
      read_files(
          {.pooling = R"({"embedding_dimension":8,"pooling_mode":"mean","include_prompt":true})",
           .bert = R"({"transformer_task":"feature-extraction","modality_config":{"text":{"method":"forward",)"
                   R"("method_output_name":"last_hidden_state"}},"module_output_name":"token_embeddings"})",
           .prompts = R"({"__version__":{"pytorch":"2.15.0","sentence_transformers":"6.2.0","transformers":"5.23.0"},)"
                      R"("default_prompt_name":null,"model_type":"SentenceTransformer","prompts":{"document":"",)"
                      R"("query":""},"similarity_fn_name":"cosine"})",
           .normalize = R"({"module_input_name":"sentence_embedding","module_output_name":"sentence_embedding"})"})
          .value();
  EXPECT_EQ(c.pooling, Pooling::mean);
  EXPECT_TRUE(c.normalize);
  EXPECT_TRUE(c.include_prompt);
  EXPECT_TRUE(c.notes.empty());
}

// Whichever folder the pooling lies in, and whether or not a prompt is the default.
TEST(SentenceConfig, RowsOfPromptsThatAreLeftOutAreToldOf) {
  const std::string pooling = R"({"pooling_mode":"mean","include_prompt":false})";
  const std::string modules = R"([{"type":"Transformer","path":""},{"type":"Pooling","path":"pool"}])";
  for (const bool elsewhere : {false, true}) {
    const auto c = parse_sentence_config("dir", [&](const std::string& name) -> std::optional<std::string> {
      if (name == "modules.json") return elsewhere ? modules : Files().modules;
      if (name == (elsewhere ? "pool/config.json" : "1_Pooling/config.json")) return pooling;
      if (name == "config_sentence_transformers.json") return Files().prompts;
      return {};
    });
    ASSERT_TRUE(c);
    EXPECT_FALSE(c->include_prompt);
    ASSERT_EQ(c->notes.size(), 1U);
    EXPECT_NE(c->notes[0].find("which tern does not do"), std::string::npos) << c->notes[0];
  }
  EXPECT_FALSE(read_files({.pooling = pooling, .prompts = R"({"prompts":{"q":"x"},"default_prompt_name":"q"})"})
                   ->include_prompt);
}

TEST(SentenceConfig, TheLengthIsFoundUnderItsOlderNames) {
  const auto c = parse_sentence_config("dir", [&](const std::string& name) -> std::optional<std::string> {
    if (name == "1_Pooling/config.json") return Files().pooling;
    if (name == "sentence_roberta_config.json") return R"({"max_seq_length":128})";
    return {};
  });
  EXPECT_EQ(c.value().max_tokens, 128);
}

TEST(SentenceConfigMalformed, SaysWhatIsWrong) {
  const auto expect = [](const char* want, const std::function<void(Files&)>& change) {
    Files f;
    change(f);
    EXPECT_TRUE(throws(ErrorKind::bad_file, want, [&] { read_files(f); }));
  };
  expect("expected a list", [](auto& f) { f.modules = "{}"; });
  expect("no Pooling", [](auto& f) { f.modules = R"([{"type":"Transformer","path":""}])"; });
  expect("\"Dense\" as module 2", [](auto& f) { f.modules.replace(f.modules.rfind("Normalize\"}"), 9, "Dense"); });
  expect("module 0.type: missing", [](auto& f) { f.modules = R"([{"path":""}])"; });
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
  expect("did you mean 'pooling_mode'", [](auto& f) { f.pooling = R"({"poling_mode":"cls"})"; });
  expect("unknown key \"scale\"", [](auto& f) { f.pooling.insert(1, R"("scale":2,)"); });
  expect("unknown key in module 1: \"kwargs\"",
         [](auto& f) { f.modules.replace(f.modules.find("\"idx\":1"), 7, R"("kwargs":["task"])"); });
  expect("module_output_name: \"word_embeddings\", which tern does not have; expected token_embeddings",
         [](auto& f) { f.bert = R"({"module_output_name":"word_embeddings"})"; });
  expect("transformer_task", [](auto& f) { f.bert = R"({"transformer_task":"fill-mask"})"; });
  expect("modality_config.text.method_output_name: \"pooler_output\"", [](auto& f) {
    f.bert = R"({"modality_config":{"text":{"method":"forward","method_output_name":"pooler_output"}}})";
  });
  expect("modality_config", [](auto& f) { f.bert = R"({"modality_config":{"image":{"method":"forward"}}})"; });
  expect("query_length: 32, which tern does not follow", [](auto& f) { f.bert = R"({"query_length":32})"; });
  expect("module_input_name: \"token_embeddings\"",
         [](auto& f) { f.normalize = R"({"module_input_name":"token_embeddings"})"; });
  expect("unknown key \"promts\"", [](auto& f) { f.prompts = R"({"promts":{}})"; });
}

TEST(SentenceConfigMutationsSlow, LoadOrAreErrorsWithinBoundedMemory) {
  const Files f;
  survive_mutations_of_sets({{f.modules, f.pooling, f.bert, f.prompts}}, [](const std::vector<std::string>& all) {
    const auto there = [](const std::string& text) { return text.empty() ? " " : text; };
    read_files({there(all[0]), there(all[1]), there(all[2]), there(all[3])});
  });
}

}  // namespace
}  // namespace tern
