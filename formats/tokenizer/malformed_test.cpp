// Damaged tokenizer files: a clear error, never a crash. One sound file, and a table of single edits to it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "formats/mutations_testing.h"
#include "formats/tokenizer/json_edit_testing.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

const char* kSound = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 9, "content": "ab cd", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "_"}, {"type": "Strip", "strip_left": true, "strip_right": false},
    {"type": "NFC"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Removed", "invert": false},
    {"type": "Digits", "individual_digits": true}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}, {"type": "Punctuation", "behavior": "Isolated"}]},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Metaspace", "replacement": "_"},
    {"type": "BPEDecoder", "suffix": "</w>"}]},
  "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"<s>": 0, "<unk>": 1, "a": 2, "b": 3, "c": 4, "ab": 5, "abc": 6, "_": 7, "_a": 8}, "merges": [["a", "b"], "ab c", ["_", "a"]]}
})";

// Wrong types for every place that has a type, then what is wrong otherwise.
// clang-format off
const JsonEdit kEdits[] = {
    {"/version", "2", "version"}, {"/version", "\"2.0\"", "version '2.0'"}, {"/version", "null", "version"}, {"/versions", "1", "unknown key 'versions'"},
    {"/model", "", "'model' is missing"}, {"/model", "null", "model"}, {"/model", "[]", "model"}, {"/model", "3", "model"}, {"/model", "\"BPE\"", "model"},
    {"/model/type", "\"Unigram\"", "unknown key 'dropout'"}, {"/model/type", "\"WordPiece\"", "unknown key 'dropout'"}, {"/model/type", "\"WordLevel\"", "WordLevel"},
    {"/model/type", "\"bpe\"", "bpe"}, {"/model/type", "1", "model"}, {"/model/type", "null", "model"}, {"/model/extra", "1", "unknown key 'extra'"},
    {"/model/dropout", "0.1", "dropout"}, {"/model/dropout", "\"x\"", "dropout"}, {"/model/dropout", "1", "dropout"}, {"/model/dropout", "-1", "dropout"},
    {"/model/unk_token", "3", "unk_token"}, {"/model/unk_token", "[]", "unk_token"}, {"/model/unk_token", "{}", "unk_token"},
    {"/model/continuing_subword_prefix", "1", "continuing_subword_prefix"}, {"/model/continuing_subword_prefix", "\"####\"", "shorter than"},
    {"/model/end_of_word_suffix", "false", "end_of_word_suffix"},
    {"/model/fuse_unk", "1", "fuse_unk"}, {"/model/fuse_unk", "\"true\"", "fuse_unk"}, {"/model/byte_fallback", "0", "byte_fallback"},
    {"/model/byte_fallback", "[]", "byte_fallback"}, {"/model/ignore_merges", "{}", "ignore_merges"}, {"/model/ignore_merges", "\"no\"", "ignore_merges"},
    {"/model/vocab", "", "'vocab' is missing"}, {"/model/vocab", "null", "vocab"}, {"/model/vocab", "[]", "vocab"}, {"/model/vocab", "\"a\"", "vocab"},
    {"/model/vocab", "{}", "merges[0]"}, {"/model/vocab/a", "-1", "'a' has id -1"}, {"/model/vocab/a", "2147483648", "'a' has id 2147483648"},
    {"/model/vocab/a", "9223372036854775807", "'a' has id"}, {"/model/vocab/a", "9223372036854775808", "'a' has id"}, {"/model/vocab/a", "18446744073709551616", "'a' has id"},
    {"/model/vocab/a", "2.0", "'a' has id"}, {"/model/vocab/a", "1e300", "'a' has id"}, {"/model/vocab/a", "\"2\"", "'a' has id"}, {"/model/vocab/a", "null", "'a' has id"},
    {"/model/vocab/a", "[2]", "'a' has id"}, {"/model/vocab/a", "true", "'a' has id"}, {"/model/vocab/a", "3", "belongs to both"}, {"/model/vocab/a", "0", "belongs to both"},
    {"/model/vocab/a", "2147483647", "ids up to 2147483647"}, {"/model/vocab/a", "1000000", "ids up to 1000000"}, {"/model/vocab/a", "", "'a' is not in the vocabulary"},
    {"/model/vocab/ab", "", "'ab' is not in the vocabulary"}, {"/model/vocab/abc", "", "'abc' is not in the vocabulary"}, {"/model/vocab/<s>", "1", "belongs to both"},
    {"/model/vocab/<s>", "12", "added token '<s>' has id 0, but 12"}, {"/model/vocab/zz", "9", "added token 'ab cd' has id 9, which is 'zz'"},
    {"/model/merges", "", "'merges' is missing"}, {"/model/merges", "null", "merges"}, {"/model/merges", "{}", "merges"}, {"/model/merges", "\"a b\"", "merges"},
    {"/model/merges/0", "\"ab\"", "merges[0]"}, {"/model/merges/0", "\"a b c\"", "merges[0]"}, {"/model/merges/0", "\"\"", "merges[0]"}, {"/model/merges/0", "\" \"", "merges[0]"},
    {"/model/merges/0", "[]", "merges[0]"}, {"/model/merges/0", "[\"a\"]", "merges[0]"}, {"/model/merges/0", "[\"a\",\"b\",\"c\"]", "merges[0]"}, {"/model/merges/0", "[1,2]", "merges[0]"},
    {"/model/merges/0", "null", "merges[0]"}, {"/model/merges/0", "7", "merges[0]"}, {"/model/merges/0", "[\"a\",null]", "merges[0]"}, {"/model/merges/0", "[\"x\",\"b\"]", "'x' is not"},
    {"/model/merges/0", "[\"a\",\"x\"]", "'x' is not"}, {"/model/merges/0", "[\"b\",\"a\"]", "'ba' is not"}, {"/model/merges/1", "\"ab  c\"", "merges[1]"},
    {"/added_tokens", "{}", "added_tokens"}, {"/added_tokens", "3", "added_tokens"}, {"/added_tokens/0", "null", "added_tokens[0]"}, {"/added_tokens/0", "\"<s>\"", "added_tokens[0]"},
    {"/added_tokens/0/id", "", "'id' is missing"}, {"/added_tokens/0/id", "-1", "out of range"}, {"/added_tokens/0/id", "2147483648", "out of range"}, {"/added_tokens/0/id", "1.5", "id"},
    {"/added_tokens/0/id", "\"0\"", "id"}, {"/added_tokens/0/id", "null", "id"}, {"/added_tokens/0/id", "9", "id"}, {"/added_tokens/0/id", "18446744073709551615", "out of range"},
    {"/added_tokens/1/id", "2147483647", "ids up to 2147483647"}, {"/added_tokens/1/id", "2", "which is 'a'"}, {"/added_tokens/1/id", "0", "id 0"},
    {"/added_tokens/0/content", "", "'content' is missing"}, {"/added_tokens/0/content", "3", "content"}, {"/added_tokens/0/content", "\"\"", "empty added token"},
    {"/added_tokens/0/content", "\"ab cd\"", "ab cd"}, {"/added_tokens/0/special", "1", "special"}, {"/added_tokens/0/lstrip", "\"x\"", "lstrip"},
    {"/added_tokens/0/rstrip", "0", "rstrip"}, {"/added_tokens/0/single_word", "[]", "single_word"}, {"/added_tokens/0/normalized", "3", "normalized"},
    {"/added_tokens/0/more", "3", "unknown key 'more'"},
    {"/normalizer", "3", "normalizer"}, {"/normalizer", "[]", "normalizer"}, {"/normalizer", "{}", "'type' is missing"}, {"/normalizer/type", "\"Precompiled\"", "unknown key 'normalizers'"},
    {"/normalizer/type", "\"Nmt\"", "unknown key 'normalizers'"}, {"/normalizer/type", "\"Other\"", "'Other'"}, {"/normalizer/type", "null", "type"}, {"/normalizer/normalizers", "", "'normalizers' is missing"}, {"/normalizer/normalizers", "{}", "normalizers"},
    {"/normalizer/normalizers/0", "null", "normalizers[0]"}, {"/normalizer/normalizers/0", "{\"type\":\"BertNormalizer\",\"x\":1}", "unknown key 'x'"},
    {"/normalizer/normalizers/0/prepend", "", "'prepend' is missing"}, {"/normalizer/normalizers/0/prepend", "4", "prepend"}, {"/normalizer/normalizers/0/x", "4", "unknown key 'x'"},
    {"/normalizer/normalizers/1/pattern", "", "'pattern' is missing"}, {"/normalizer/normalizers/1/pattern", "\" \"", "pattern"}, {"/normalizer/normalizers/1/pattern", "{}", "pattern"},
    {"/normalizer/normalizers/1/pattern", "{\"Regex\":\"(\"}", "pattern '('"}, {"/normalizer/normalizers/1/pattern", "{\"Glob\":\"*\"}", "Glob"},
    {"/normalizer/normalizers/1/pattern", "{\"String\":\"a\",\"Regex\":\"b\"}", "one of String and Regex"}, {"/normalizer/normalizers/1/content", "", "'content' is missing"},
    {"/normalizer/normalizers/2/strip_left", "", "'strip_left' is missing"}, {"/normalizer/normalizers/2/strip_right", "1", "strip_right"}, {"/normalizer/normalizers/3/form", "1", "unknown key 'form'"},
    {"/pre_tokenizer", "true", "pre_tokenizer"}, {"/pre_tokenizer/type", "\"BertPreTokenizer\"", "unknown key 'pretokenizers'"}, {"/pre_tokenizer/type", "\"UnicodeScripts\"", "UnicodeScripts"},
    {"/pre_tokenizer/pretokenizers", "", "'pretokenizers' is missing"}, {"/pre_tokenizer/pretokenizers", "7", "pretokenizers"},
    {"/pre_tokenizer/pretokenizers/0/behavior", "\"Isolate\"", "'Isolate'"}, {"/pre_tokenizer/pretokenizers/0/behavior", "", "'behavior' is missing"},
    {"/pre_tokenizer/pretokenizers/0/invert", "", "'invert' is missing"}, {"/pre_tokenizer/pretokenizers/0/invert", "0", "invert"},
    {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"[\"", "pattern '['"}, {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"a{3,1}{\\\\p{Nope}\"", "pattern"},
    {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "3", "Regex"}, {"/pre_tokenizer/pretokenizers/1/individual_digits", "", "'individual_digits' is missing"},
    {"/pre_tokenizer/pretokenizers/1/individual_digits", "2", "individual_digits"}, {"/pre_tokenizer/pretokenizers/2/replacement", "", "'replacement' is missing"},
    {"/pre_tokenizer/pretokenizers/2/replacement", "\"\"", "one character"}, {"/pre_tokenizer/pretokenizers/2/replacement", "\"ab\"", "one character"},
    {"/pre_tokenizer/pretokenizers/2/prepend_scheme", "\"last\"", "'last'"}, {"/pre_tokenizer/pretokenizers/2/add_prefix_space", "false", "prepend_scheme"},
    {"/pre_tokenizer/pretokenizers/0", "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":true}", "'first' behind"},
    {"/pre_tokenizer/pretokenizers/2/split", "3", "split"}, {"/pre_tokenizer/pretokenizers/3/add_prefix_space", "", "'add_prefix_space' is missing"},
    {"/pre_tokenizer/pretokenizers/3/use_regex", "\"x\"", "use_regex"}, {"/pre_tokenizer/pretokenizers/4/behavior", "\"\"", "behaviour ''"},
    {"/post_processor", "5", "post_processor"}, {"/post_processor/type", "\"Other\"", "'Other'"}, {"/post_processor/single", "", "'single' is missing"}, {"/post_processor/single", "{}", "single"},
    {"/post_processor/single", "[]", "exactly once"}, {"/post_processor/single/0", "{}", "one of SpecialToken and Sequence"}, {"/post_processor/single/0", "null", "single[0]"},
    {"/post_processor/single/0/SpecialToken", "3", "single[0]"}, {"/post_processor/single/0/SpecialToken/id", "\"<x>\"", "'<x>' is missing"}, {"/post_processor/single/0/SpecialToken/id", "0", "id"},
    {"/post_processor/single/1/Sequence/id", "\"B\"", "sequence 'B'"}, {"/post_processor/single/0", "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}", "exactly once"},
    {"/post_processor/special_tokens", "", "'special_tokens' is missing"}, {"/post_processor/special_tokens", "[]", "special_tokens"}, {"/post_processor/special_tokens/<s>", "3", "special_tokens"},
    {"/post_processor/special_tokens/<s>/ids", "", "'ids' is missing"}, {"/post_processor/special_tokens/<s>/ids", "[-1]", "no token id"}, {"/post_processor/special_tokens/<s>/ids", "[4294967296]", "no token id"},
    {"/post_processor/special_tokens/<s>/ids", "[\"0\"]", "no token id"}, {"/post_processor/special_tokens/<s>/ids", "[77]", "id 77"},
    {"/decoder", "1", "decoder"}, {"/decoder/type", "\"CTC\"", "unknown key 'decoders'"}, {"/decoder/type", "\"WordPiece\"", "unknown key 'decoders'"}, {"/decoder/decoders", "", "'decoders' is missing"}, {"/decoder/decoders", "{}", "decoders"},
    {"/decoder/decoders/0/content", "", "'content' is missing"}, {"/decoder/decoders/1/x", "0", "unknown key 'x'"}, {"/decoder/decoders/3/content", "\"  \"", "one character"},
    {"/decoder/decoders/3/start", "-1", "out of range"}, {"/decoder/decoders/3/start", "9223372036854775807", "out of range"}, {"/decoder/decoders/3/stop", "", "'stop' is missing"},
    {"/decoder/decoders/3/stop", "0.5", "stop"}, {"/decoder/decoders/4/replacement", "3", "replacement"}, {"/decoder/decoders/5/suffix", "", "'suffix' is missing"}, {"/decoder/decoders/5/suffix", "null", "suffix"},
};
// clang-format on

std::string message_of(const std::string& json, const std::string& config = "") {
  try {
    Tokenizer::from_json(json, config, "t.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(TokenizerMalformed, TheSoundFileLoads) {
  EXPECT_EQ(message_of(kSound), "no error");
  EXPECT_GE(std::size(kEdits), 150u);
}

TEST(TokenizerMalformed, EveryEditIsAnErrorThatNamesIt) {
  for (const JsonEdit& edit : kEdits) {
    const std::string message = message_of(with_edit(kSound, edit));
    EXPECT_NE(message.find(edit.want), std::string::npos)
        << edit.path << " = " << edit.value << "\n  got: " << message << "\n  want: " << edit.want;
    EXPECT_EQ(message.rfind("t.json", 0), 0u) << message;
  }
}

TEST(TokenizerMalformed, BrokenJsonAndConfigs) {
  for (const std::string json :
       {"", "{", "[]", "null", "{\"model\":{}}", "\xFF", "{\"version\":\"1.0\",\"version\":\"1.0\"}"})
    EXPECT_NE(message_of(json), "no error") << json;
  EXPECT_NE(message_of(std::string(10000, '[')), "no error");
  EXPECT_NE(message_of(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})"), "no error");
  for (const std::string config :
       {"[]", "{\"bos_token\": 3}", "{\"bos_token\": {}}", "{\"eos_token\": \"nowhere\"}", "{\"add_bos_token\": 1}",
        "{\"added_tokens_decoder\": []}", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"y\"}}}",
        "{\"added_tokens_decoder\": {\"3\": {}}}", "{\"added_tokens_decoder\": {\"3\": {\"content\": \"new\"}}}"})
    EXPECT_NE(message_of(kSound, config), "no error") << config;
}

TEST(TokenizerMalformed, ANormalizerThatDoublesTheTextAgainAndAgainIsStopped) {
  std::string steps;
  for (int i = 0; i < 60; ++i)
    steps += std::string(i ? "," : "") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  const Tokenizer t = Tokenizer::from_json(R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
                                               R"(]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                                           "");
  try {
    t.encode("a");
    FAIL() << "2^60 bytes?";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("normalizer: Replace makes more than"), std::string::npos) << e.what();
  }
}

TEST(TokenizerMalformed, ARankOfMillionsOfBytesIsRefusedAtOnce) {
  const std::string path = testing::TempDir() + "tern-long-rank.model";
  std::ofstream(path) << "YQ== 0\n" << std::string(4'000'000, 'Y') << " 1\n";
  try {
    Tokenizer::load(path);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("line 2: 4000002 bytes"), std::string::npos) << e.what();
  }
  std::filesystem::remove(path);
}

TEST(TokenizerMutationsSlow, BpeLoadsOrIsAnErrorWithinBoundedMemory) {
  const auto golden_json = [](const std::string& name) {
    return read_bytes(golden("tokenizers/" + name + "/tokenizer.json"));
  };
  std::vector<std::string> seeds(18, kSound);  // the large ones take their time
  seeds.push_back(golden_json("sentencepiece_like"));
  seeds.push_back(golden_json("llama3_like"));
  survive_mutations(seeds, [](const std::string& json) {
    const Tokenizer t = Tokenizer::from_json(json, "");
    t.decode(t.encode("ab abc <s> 12 x_y ab cd"));
  });
}

}  // namespace
}  // namespace tern
