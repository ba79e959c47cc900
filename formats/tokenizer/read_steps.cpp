// The components of tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/error.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/normal_form.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

constexpr int64_t kMaxCount = 1 << 20;

[[noreturn]] void unknown_type(const std::string& type, const std::string& place, const char* what, const char* known) {
  throw Error(ErrorKind::bad_file, "{}: {} '{}' is not one tern knows ({}); the ids would be wrong without it", place,
              what, type, known);
}

std::string element(const std::string& place, size_t i) { return place + "[" + std::to_string(i) + "]"; }

const Json& require_list(const Json& object, const char* key, const std::string& place) {
  const Json& list = require_member(object, key, place);
  if (!list.is_array())
    throw Error(ErrorKind::bad_file, "{}: {} instead of a list", path_in(place, key), list.type_name());
  return list;
}

// {"String": s} or {"Regex": s}
Regex read_pattern(const Json& object, const std::string& place) {
  const Json& pattern = require_member(object, "pattern", place);
  const std::string at = path_in(place, "pattern");
  require_object(pattern, at);
  check_keys(pattern, {"String", "Regex"}, at);
  if (pattern.size() != 1)
    throw Error(ErrorKind::bad_file, "{}: {} keys, expected one of String and Regex", at, pattern.size());
  if (find_member(pattern, "String")) return Regex::from_literal(read_string(pattern, "String", at));
  return Regex(read_string(pattern, "Regex", at), at);
}

std::string read_one_character(const Json& object, const char* key, const std::string& place) {
  std::string text = read_string(object, key, place);
  if (text.empty() || static_cast<size_t>(code_point_at(text, 0).size) != text.size())
    throw Error(ErrorKind::bad_file, "{}: '{}', expected one character", path_in(place, key), text.substr(0, 40));
  return text;
}

SplitBehavior read_behavior(const Json& object, const std::string& place) {
  const std::string name = read_string(object, "behavior", place);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  unknown_type(name, path_in(place, "behavior"), "behaviour",
               "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

// Old files say add_prefix_space; newer ones prepend_scheme.
PrependScheme read_scheme(const Json& object, const std::string& place) {
  PrependScheme scheme = PrependScheme::always;
  if (find_member(object, "prepend_scheme")) {
    const std::string name = read_string(object, "prepend_scheme", place);
    if (name == "first")
      scheme = PrependScheme::first;
    else if (name == "never")
      scheme = PrependScheme::never;
    else if (name != "always")
      unknown_type(name, path_in(place, "prepend_scheme"), "scheme", "always, first, never");
  }
  if (!read_bool(object, "add_prefix_space", true, place)) {
    if (find_member(object, "prepend_scheme") && scheme != PrependScheme::never)
      throw Error(ErrorKind::bad_file,
                  "{}: add_prefix_space is false but prepend_scheme is not 'never'; keep one of them", place);
    scheme = PrependScheme::never;
  }
  return scheme;
}

CharsmapStep read_charsmap(const Json& j, const std::string& place) {
  const std::string at = path_in(place, "precompiled_charsmap");
  const Json& value = require_member(j, "precompiled_charsmap", place);
  if (value.is_null()) return {};
  std::string bytes;
  if (!decode_base64(read_string(j, "precompiled_charsmap", place), bytes))
    throw Error(ErrorKind::bad_file, "{}: not base64; is the file damaged?", at);
  if (bytes.empty()) return {};
  return {std::make_shared<const Charsmap>(bytes, at)};
}

void append_normalizers(const Json& j, const std::string& place, std::vector<NormalizeStep>& steps) {
  require_object(j, place);
  const std::string type = read_string(j, "type", place);
  if (type == "Sequence") {
    check_keys(j, {"type", "normalizers"}, place);
    const Json& list = require_list(j, "normalizers", place);
    for (size_t i = 0; i < list.size(); ++i)
      append_normalizers(list[i], element(path_in(place, "normalizers"), i), steps);
  } else if (type == "Prepend") {
    check_keys(j, {"type", "prepend"}, place);
    steps.push_back(PrependStep{read_string(j, "prepend", place)});
  } else if (type == "Replace") {
    check_keys(j, {"type", "pattern", "content"}, place);
    steps.push_back(ReplaceStep{read_pattern(j, place), read_string(j, "content", place)});
  } else if (type == "Strip") {
    check_keys(j, {"type", "strip_left", "strip_right"}, place);
    steps.push_back(StripSpacesStep{read_bool(j, "strip_left", {}, place), read_bool(j, "strip_right", {}, place)});
  } else if (type == "BertNormalizer") {
    check_keys(j, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}, place);
    const bool lowercase = read_bool(j, "lowercase", true, place);
    steps.push_back(BertStep{read_bool(j, "clean_text", true, place), read_bool(j, "handle_chinese_chars", true, place),
                             read_bool(j, "strip_accents", lowercase, place), lowercase});
  } else if (type == "Precompiled") {
    check_keys(j, {"type", "precompiled_charsmap"}, place);
    steps.push_back(read_charsmap(j, place));
  } else {
    if (type == "NFC")
      steps.push_back(UnicodeStep{NormalForm::nfc});
    else if (type == "NFD")
      steps.push_back(UnicodeStep{NormalForm::nfd});
    else if (type == "NFKC")
      steps.push_back(UnicodeStep{NormalForm::nfkc});
    else if (type == "NFKD")
      steps.push_back(UnicodeStep{NormalForm::nfkd});
    else if (type == "Lowercase")
      steps.push_back(LowercaseStep{});
    else if (type == "StripAccents")
      steps.push_back(StripAccentsStep{});
    else if (type == "ByteLevel")
      steps.push_back(ByteLevelTextStep{});
    else if (type == "Nmt")
      steps.push_back(NmtStep{});
    else
      unknown_type(type, place, "normalizer",
                   "Sequence, Prepend, Replace, Strip, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, ByteLevel, "
                   "BertNormalizer, Nmt, Precompiled");
    check_keys(j, {"type"}, place);
  }
}

void append_splitters(const Json& j, const std::string& place, std::vector<SplitTextStep>& steps) {
  require_object(j, place);
  const std::string type = read_string(j, "type", place);
  if (type == "Sequence") {
    check_keys(j, {"type", "pretokenizers"}, place);
    const Json& list = require_list(j, "pretokenizers", place);
    for (size_t i = 0; i < list.size(); ++i)
      append_splitters(list[i], element(path_in(place, "pretokenizers"), i), steps);
  } else if (type == "ByteLevel") {
    check_keys(j, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, place);
    steps.push_back(ByteLevelStep{read_bool(j, "add_prefix_space", {}, place), read_bool(j, "use_regex", true, place)});
  } else if (type == "Split") {
    check_keys(j, {"type", "pattern", "behavior", "invert"}, place);
    steps.push_back(SplitStep{read_pattern(j, place), read_behavior(j, place), read_bool(j, "invert", {}, place)});
  } else if (type == "Digits") {
    check_keys(j, {"type", "individual_digits"}, place);
    const bool single = read_bool(j, "individual_digits", {}, place);
    steps.push_back(SplitOnClassStep{CharClass::numeric, single ? SplitBehavior::isolated : SplitBehavior::contiguous});
  } else if (type == "Punctuation") {
    check_keys(j, {"type", "behavior"}, place);
    steps.push_back(SplitOnClassStep{CharClass::punctuation_step,
                                     find_member(j, "behavior") ? read_behavior(j, place) : SplitBehavior::isolated});
  } else if (type == "Metaspace") {
    check_keys(j, {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"}, place);
    steps.push_back(MetaspaceStep{read_one_character(j, "replacement", place), read_scheme(j, place),
                                  read_bool(j, "split", true, place)});
  } else if (type == "WhitespaceSplit") {
    check_keys(j, {"type"}, place);
    steps.push_back(SplitOnClassStep{CharClass::space, SplitBehavior::removed});
  } else if (type == "Whitespace") {
    check_keys(j, {"type"}, place);
    steps.push_back(WhitespaceStep{});
  } else if (type == "BertPreTokenizer") {
    check_keys(j, {"type"}, place);
    steps.push_back(SplitOnClassStep{CharClass::space, SplitBehavior::removed});
    steps.push_back(SplitOnClassStep{CharClass::punctuation_step, SplitBehavior::isolated});
  } else if (type == "CharDelimiterSplit") {
    check_keys(j, {"type", "delimiter"}, place);
    steps.push_back(SplitOnCharacterStep{code_point_at(read_one_character(j, "delimiter", place), 0).value});
  } else {
    unknown_type(type, place, "pre-tokenizer",
                 "Sequence, ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit, "
                 "BertPreTokenizer, CharDelimiterSplit");
  }
}

void append_decoders(const Json& j, const std::string& place, std::vector<DecodeStep>& steps) {
  require_object(j, place);
  const std::string type = read_string(j, "type", place);
  if (type == "Sequence") {
    check_keys(j, {"type", "decoders"}, place);
    const Json& list = require_list(j, "decoders", place);
    for (size_t i = 0; i < list.size(); ++i) append_decoders(list[i], element(path_in(place, "decoders"), i), steps);
  } else if (type == "ByteLevel") {
    check_keys(j, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, place);
    steps.push_back(ByteLevelDecode{});
  } else if (type == "ByteFallback") {
    check_keys(j, {"type"}, place);
    steps.push_back(ByteFallbackDecode{});
  } else if (type == "Fuse") {
    check_keys(j, {"type"}, place);
    steps.push_back(FuseDecode{});
  } else if (type == "Strip") {
    check_keys(j, {"type", "content", "start", "stop"}, place);
    StripDecode& strip = std::get<StripDecode>(steps.emplace_back(std::in_place_type<StripDecode>));
    strip.content = code_point_at(read_one_character(j, "content", place), 0).value;
    strip.start = read_int(j, "start", 0, kMaxCount, place);
    strip.stop = read_int(j, "stop", 0, kMaxCount, place);
  } else if (type == "Replace") {
    check_keys(j, {"type", "pattern", "content"}, place);
    steps.push_back(ReplaceDecode{read_pattern(j, place), read_string(j, "content", place)});
  } else if (type == "Metaspace") {
    check_keys(j, {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"}, place);
    steps.push_back(
        MetaspaceDecode{read_one_character(j, "replacement", place), read_scheme(j, place) != PrependScheme::never});
  } else if (type == "BPEDecoder") {
    check_keys(j, {"type", "suffix"}, place);
    steps.push_back(SuffixDecode{read_string(j, "suffix", place)});
  } else if (type == "WordPiece") {
    check_keys(j, {"type", "prefix", "cleanup"}, place);
    const std::string prefix = read_string(j, "prefix", place);
    steps.push_back(WordPieceDecode{prefix, read_bool(j, "cleanup", {}, place)});
  } else if (type == "CTC") {
    check_keys(j, {"type", "pad_token", "word_delimiter_token", "cleanup"}, place);
    const std::string pad = read_string(j, "pad_token", place),
                      delimiter = read_string(j, "word_delimiter_token", place);
    if (delimiter.empty())
      throw Error(ErrorKind::bad_file, "{}: empty, expected what stands between words",
                  path_in(place, "word_delimiter_token"));
    steps.push_back(CtcDecode{pad, delimiter, read_bool(j, "cleanup", {}, place)});
  } else {
    unknown_type(type, place, "decoder",
                 "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, BPEDecoder, WordPiece, CTC");
  }
}

std::vector<TemplateItem> read_template(const Json& j, const std::string& place) {
  check_keys(j, {"type", "single", "pair", "special_tokens"}, place);
  const Json& single = require_list(j, "single", place);
  const Json& specials = require_member(j, "special_tokens", place);
  require_object(specials, path_in(place, "special_tokens"));
  constexpr size_t kMaxAround = 4096;  // ids that every text gets
  std::vector<TemplateItem> items;
  size_t num_ids = 0;
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string at = element(path_in(place, "single"), i);
    require_object(single[i], at);
    check_keys(single[i], {"SpecialToken", "Sequence"}, at);
    if (single[i].size() != 1) throw Error(ErrorKind::bad_file, "{}: expected one of SpecialToken and Sequence", at);
    const bool is_text = find_member(single[i], "Sequence");
    const Json& item = single[i].front();
    require_object(item, at);
    const std::string id = read_string(item, "id", at);
    if (is_text) {
      if (id != "A")
        throw Error(ErrorKind::bad_file, "{}: sequence '{}', expected 'A': a template for one text", at, id);
      items.push_back({{}, true});
      continue;
    }
    const std::string token_place = path_in(path_in(place, "special_tokens"), id);
    const Json& token = require_member(specials, id.c_str(), path_in(place, "special_tokens"));
    require_object(token, token_place);
    TemplateItem out;
    const Json& ids = require_list(token, "ids", token_place);
    num_ids += ids.size() + 1;
    if (num_ids > kMaxAround)
      throw Error(ErrorKind::bad_file, "{}: more than {} ids around every text; is tokenizer.json to be trusted?",
                  place, kMaxAround);
    for (const Json& value : ids) {
      if (!is_token_id(value)) throw Error(ErrorKind::bad_file, "{}.ids: {} is no token id", token_place, value.dump());
      out.ids.push_back(value.get<int32_t>());
    }
    items.push_back(std::move(out));
  }
  return items;
}

// BERT's and RoBERTa's processors: cls, text, sep.
std::vector<TemplateItem> read_cls_sep(const Json& j, const std::string& place) {
  check_keys(j, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}, place);
  const auto id_of = [&](const char* key) {
    const Json& pair = require_list(j, key, place);
    if (pair.size() != 2 || !pair[0].is_string() || !is_token_id(pair[1]))
      throw Error(ErrorKind::bad_file, "{}: expected [token, id]", path_in(place, key));
    return pair[1].get<int32_t>();
  };
  return {{{id_of("cls")}, false}, {{}, true}, {{id_of("sep")}, false}};
}

std::vector<TemplateItem> read_processor(const Json& j, const std::string& place) {
  require_object(j, place);
  const std::string type = read_string(j, "type", place);
  if (type == "TemplateProcessing") return read_template(j, place);
  if (type == "RobertaProcessing" || type == "BertProcessing") return read_cls_sep(j, place);
  if (type == "ByteLevel") {  // trims offsets, which tern does not give out
    check_keys(j, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, place);
    return {{{}, true}};
  }
  if (type != "Sequence")
    unknown_type(type, place, "post-processor",
                 "Sequence, TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing");
  check_keys(j, {"type", "processors"}, place);
  const Json& list = require_list(j, "processors", place);
  std::vector<TemplateItem> items = {{{}, true}};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = element(path_in(place, "processors"), i);
    std::vector<TemplateItem> next = read_processor(list[i], at);
    if (items.size() > 1 && next.size() > 1)
      throw Error(ErrorKind::bad_file, "{}: a second processor that adds tokens; tern reads one", at);
    if (next.size() > 1) items = std::move(next);
  }
  return items;
}

}  // namespace

namespace {

// Every step goes over the whole text; the longest known lists have a few dozen.
template <class Step>
std::vector<Step> checked_count(std::vector<Step> steps, const std::string& place) {
  constexpr size_t kMaxSteps = 256;
  if (steps.size() > kMaxSteps)
    throw Error(ErrorKind::bad_file, "{}: {} steps, at most {} are read; is tokenizer.json to be trusted?", place,
                steps.size(), kMaxSteps);
  return steps;
}

}  // namespace

std::vector<NormalizeStep> read_normalizer(const Json& j, const std::string& place) {
  std::vector<NormalizeStep> steps;
  if (!j.is_null()) append_normalizers(j, place, steps);
  return checked_count(std::move(steps), place);
}

namespace {

// The reference's "first" asks of each part whether the character that it came from was the text's first one, which several
// parts may have come from once a step has written characters. Here only the first part is the first.
void refuse_late_first(const std::vector<SplitTextStep>& steps, const std::string& place) {
  bool writes = false;
  for (const SplitTextStep& step : steps) {
    const auto* m = std::get_if<MetaspaceStep>(&step);
    if (m && m->scheme == PrependScheme::first && writes)
      throw Error(ErrorKind::bad_file,
                  "{}: a Metaspace with prepend_scheme 'first' behind a ByteLevel or another Metaspace, which write "
                  "characters; tern follows it only before them",
                  place);
    writes = writes || std::holds_alternative<ByteLevelStep>(step) || (m && m->scheme != PrependScheme::never);
  }
}

}  // namespace

std::vector<SplitTextStep> read_pre_tokenizer(const Json& j, const std::string& place) {
  std::vector<SplitTextStep> steps;
  if (!j.is_null()) append_splitters(j, place, steps);
  refuse_late_first(steps, place);
  return checked_count(std::move(steps), place);
}

std::vector<DecodeStep> read_decoder(const Json& j, const std::string& place) {
  std::vector<DecodeStep> steps;
  if (j.is_null())
    steps.push_back(JoinDecode{});
  else
    append_decoders(j, place, steps);
  return checked_count(std::move(steps), place);
}

std::vector<TemplateItem> read_post_processor(const Json& j, const std::string& place) {
  if (j.is_null()) return {{{}, true}};
  std::vector<TemplateItem> items = read_processor(j, place);
  if (std::ranges::count(items, true, &TemplateItem::is_text) != 1)
    throw Error(ErrorKind::bad_file, "{}: the template must hold the text exactly once", place);
  return items;
}

}  // namespace tern
