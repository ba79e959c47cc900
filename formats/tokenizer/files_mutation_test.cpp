// Ten thousand seeded mutations of the smaller files beside a model: each is read, or refused by an Error; memory stays
// bounded.
#include "formats/data/jsonl.h"
#include "formats/mutations_testing.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

void use(const Tokenizer& t) { t.decode(t.encode("ab abc <s> 12 x_y <|new|> \U0001F600")); }

TEST(TokenizerFilesMutationsSlow, VocabularyMergesAndWhatStandsBesideThem) {
  survive_mutations_of_sets(
      {{R"({"a":0,"b":1,"c":2,"ab":3,"abc":4,"Ġ":5,"Ġa":6,"<s>":7,"<unk>":8})", "#version: 0.2\na b\nab c\nĠ a\n",
        R"({"add_bos_token":true,"bos_token":"<s>","unk_token":{"content":"<unk>","lstrip":false,"rstrip":false,)"
        R"("single_word":false,"normalized":true},"clean_up_tokenization_spaces":false,"model_max_length":1024,)"
        R"("added_tokens_decoder":{"7":{"content":"<s>","special":true}}})",
        R"({"bos_token":"<s>","eos_token":{"content":"<s>","lstrip":false}})"}},
      [](const std::vector<std::string>& files) {
        TokenizerConfig config = read_tokenizer_config(files[2], "tokenizer_config.json");
        read_special_tokens_map(files[3], "special_tokens_map.json", config);
        use(finish_tokenizer(read_vocab_and_merges(files[0], files[1], "vocab.json"), std::move(config)));
      });
}

TEST(TokenizerFilesMutationsSlow, WordLists) {
  survive_mutations_of_sets(
      {{"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nab\nabc\n12\n_\n",
        R"({"do_lower_case":true,"strip_accents":null,"tokenize_chinese_chars":true,"cls_token":"[CLS]",)"
        R"("sep_token":{"content":"[SEP]"},"unk_token":"[UNK]"})"}},
      [](const std::vector<std::string>& files) {
        TokenizerConfig config = read_tokenizer_config(files[1], "tokenizer_config.json");
        use(finish_tokenizer(read_word_list(files[0], files[1], "vocab.txt"), std::move(config)));
      });
}

TEST(TokenizerFilesMutationsSlow, TiktokenRanks) {
  std::string ranks;
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned b = 0; b < 256; ++b)  // each byte as a rank, in base64
    ranks += std::string{digits[b >> 2], digits[(b & 3) << 4], '=', '='} + " " + std::to_string(b) + "\n";
  ranks += "YWI= 256\nYWJj 257\n";
  // A rank that is another leaves a hole, which is refused: few survive.
  survive_mutations({ranks}, [](const std::string& file) { use(finish_tokenizer(read_tiktoken(file, "t.model"), {})); },
                    {.least_fine = 5});
}

TEST(TokenizerFilesMutationsSlow, JsonlRecords) {
  survive_mutations_of_sets({{R"({"text": "a line ☃"})", R"({"prompt": "2+2=", "completion": "4"})",
                              R"({"messages": [{"role": "user", "content": "hi"}]})"}},
                            [](const std::vector<std::string>& lines) {
                              for (const std::string& line : lines) parse_jsonl_record(line, "f.jsonl line 1");
                            });
}

}  // namespace
}  // namespace tern
