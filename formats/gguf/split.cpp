#include "formats/gguf/split.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/scan.h"

namespace tern {
namespace {

// One step: a hand-written scanner's pattern, another pattern, or one of the named steps.
struct Step {
  enum Kind : uint8_t { scan, pattern, each_digit, digits, punctuation, bytes } kind = scan;
  ScanKind rule = ScanKind::gpt2;
  std::string_view text;
};

struct Row {
  std::string_view names;  // the first is the one that is written
  std::vector<Step> steps;
  bool whole_words_first = false;
};

Step scan(ScanKind rule) { return {Step::scan, rule, {}}; }
constexpr Step kEachDigit = {Step::each_digit, {}, {}};
Step pattern(std::string_view text) { return {Step::pattern, {}, text}; }

// Mistral's: letters by case as o200k's, without its English endings, digits one by one.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen2's, with marks beside letters.
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// o200k's, with Chinese characters by themselves.
constexpr std::string_view kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters that have a case, DeepSeek LLM's; escaped where a tool could take another character of the same look.
// The formatter counts columns of such letters in more than one way.
// clang-format off
constexpr std::string_view kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ"
    "-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴ"
    "ℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ\U00010400-\U0001044f𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
    "]+";
// clang-format on
constexpr std::string_view kDeepseekEast = "[一-龥ࠀ-一가-퟿]+";

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de roberta-bpe jina-v2-code exaone4 modern-bert",
       {scan(ScanKind::gpt2)}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2", {scan(ScanKind::llama3)}, true},
      {"dbrx smaug-bpe chatglm-bpe", {scan(ScanKind::llama3)}},
      {"glm4", {scan(ScanKind::llama3)}, true},
      {"qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan", {scan(ScanKind::qwen2)}},
      {"gpt-4o llama4 kanana2", {scan(ScanKind::o200k)}},
      {"deepseek-v3 hunyuan-dense", {scan(ScanKind::numbers), scan(ScanKind::east_asian), scan(ScanKind::deepseek)}},
      {"starcoder refact command-r smollm codeshell exaone minerva-7b", {kEachDigit, scan(ScanKind::gpt2)}},
      {"falcon",
       {{Step::punctuation, {}, "Contiguous"},
        scan(ScanKind::gpt2),
        {Step::bytes, {}, {}},  // digits are looked for in spelled bytes, as Falcon's own file does
        {Step::digits, {}, {}},
        scan(ScanKind::three_digits)}},
      {"bloom poro-chat gpt3-finnish", {scan(ScanKind::bloom)}},
      {"viking", {scan(ScanKind::bloom), kEachDigit}},
      {"tekken", {pattern(kTekken)}, true},
      {"qwen35", {pattern(kQwen35)}},
      {"kimi-k2", {pattern(kKimi)}},
      {"seed-coder", {pattern(kSeedCoder)}},
      // llama.cpp keeps a run of digits whole; the model's vocabulary has no piece of two, so that both merge alike.
      {"deepseek-llm",
       {pattern("[\r\n]"), pattern(kDeepseekLetters), pattern("\\s?[!-/:-~！-／：-～‘-‟　-。]+"), pattern("\\s+$"),
        pattern(kDeepseekEast), kEachDigit}},
      {"deepseek-coder",
       {pattern("[\r\n]"), pattern("\\s?\\p{L}+"), pattern("\\s?\\p{P}+"), pattern(kDeepseekEast), kEachDigit}},
      {"default",
       {{Step::pattern, {}, R"([\p{P}\$\+<=>\^~\|]+)"},
        scan(ScanKind::gpt2),
        {Step::pattern, {}, R"(\p{N}+)"},
        scan(ScanKind::three_digits)}},
  };
  return table;
}

const Row* find_row(std::string_view name) {
  for (const Row& row : rows())
    for (const std::string_view known : split_words(row.names))
      if (known == name) return &row;
  return nullptr;
}

Json split_by(std::string_view pattern) {
  return {{"type", "Split"}, {"pattern", Json{{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json to_json(const Row& row) {
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json list = Json::array();
  bool spelled = false;
  for (const Step& step : row.steps) {
    spelled |= step.kind == Step::bytes;
    if (step.kind == Step::bytes) list.push_back(bytes);
    if (step.kind == Step::digits) list.push_back({{"type", "Digits"}, {"individual_digits", false}});
    if (step.kind == Step::scan) list.push_back(split_by(pattern_of(step.rule)));
    if (step.kind == Step::pattern) list.push_back(split_by(step.text));
    if (step.kind == Step::each_digit) list.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (step.kind == Step::punctuation) list.push_back({{"type", "Punctuation"}, {"behavior", step.text}});
  }
  if (!spelled) list.push_back(bytes);
  return {{"type", "Sequence"}, {"pretokenizers", list}};
}

// What the steps do, in one spelling: a sequence in a sequence, defaults and GPT-2's own pattern are spelled out.
void spell(const Json& step, std::string& out) {
  if (!step.is_object()) return;
  const std::string type = step.value("type", "");
  if (type == "Sequence" && step.contains("pretokenizers")) {
    for (const Json& inner : step["pretokenizers"]) spell(inner, out);
  } else if (type == "ByteLevel") {
    if (step.value("add_prefix_space", true)) out += "a space in front\n";
    if (step.value("use_regex", true)) spell(split_by(pattern_of(ScanKind::gpt2)), out);
    out += "bytes\n";
  } else if (type == "Digits") {
    out += step.value("individual_digits", false) ? "each digit\n" : "digits\n";
  } else if (type == "Punctuation") {
    out += "punctuation " + step.value("behavior", "Isolated") + "\n";
  } else {
    out += dump_json(step) + "\n";
  }
}

std::string spelled(const Json& steps) {
  std::string out;
  spell(steps, out);
  return out;
}

}  // namespace

Json gguf_pre_tokenizer(std::string_view name) {
  const Row* row = find_row(name);
  return row ? to_json(*row) : Json(nullptr);
}

bool gguf_takes_whole_words(std::string_view name) {
  const Row* row = find_row(name);
  return row && row->whole_words_first;
}

std::string gguf_pre_name(const Json& pre_tokenizer, bool whole_words_first) {
  const std::string want = spelled(pre_tokenizer);
  std::string other;
  for (const Row& row : rows()) {
    if (spelled(to_json(row)) != want) continue;
    const std::string name(split_words(row.names)[0]);
    if (row.whole_words_first == whole_words_first) return name;
    if (other.empty()) other = name;
  }
  return other;
}

}  // namespace tern
