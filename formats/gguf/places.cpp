#include "formats/gguf/places.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "formats/gguf/families.h"

namespace tern {
namespace {

struct Numbers {
  std::string_view layer, expert;
};

// The numbers where `pattern` has '#' and '@'; false if the name is another.
bool matches(std::string_view pattern, std::string_view name, Numbers& numbers) {
  while (!pattern.empty()) {
    const char next = pattern.front();
    pattern.remove_prefix(1);
    if (next == '#' || next == '@') {
      const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return false;
      (next == '#' ? numbers.layer : numbers.expert) = name.substr(0, digits);
      name.remove_prefix(digits);
    } else if (!name.empty() && name.front() == next) {
      name.remove_prefix(1);
    } else {
      return false;
    }
  }
  return name.empty();
}

}  // namespace

bool is_gguf_rope_table(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

namespace {

const GgufFamily& family_with_names(std::string_view model_type) {
  if (const GgufFamily* family = gguf_family(model_type)) return *family;
  throw Error(ErrorKind::usage, "GGUF: tern knows no names for family '{}' there; it knows {}", model_type,
              join(gguf_families(), ", "));
}

[[noreturn]] void no_place(std::string_view model_type, std::string_view hf_name) {
  throw Error(ErrorKind::usage, "GGUF: tern knows no name for tensor '{}' of family '{}' there", hf_name, model_type);
}

}  // namespace

GgufPlace gguf_place(std::string_view model_type, std::string_view hf_name) {
  const GgufFamily* const family = &family_with_names(model_type);
  const size_t dot = hf_name.rfind('.');
  const std::string_view stem = hf_name.substr(0, dot), suffix = dot == hf_name.npos ? "" : hf_name.substr(dot);
  for (const std::span<const GgufName> names : {family->names, family->names_of_experts})
    for (const GgufName& n : names) {
      Numbers numbers;
      const bool whole = matches(n.hf, hf_name, numbers);  // a name that has no suffix in Hugging Face's files
      if (!whole && !matches(n.hf, stem, numbers)) continue;
      GgufPlace place{.name = replace_all(std::string(n.gguf), "#", numbers.layer) +
                              std::string(whole ? ".weight" : suffix)};
      if (family->interleaved && n.gguf.ends_with("attn_q")) place.interleaved = GgufPlace::Heads::queries;
      if (family->interleaved && n.gguf.ends_with("attn_k")) place.interleaved = GgufPlace::Heads::keys;
      if (!numbers.expert.empty()) place.expert = std::stoll(std::string(numbers.expert));
      place.sorted = family->sorted && n.gguf.ends_with("attn_qkv");
      place.plus_one = family->plus_one && n.gguf.ends_with("norm");
      return place;
    }
  no_place(model_type, hf_name);
}

GgufPlace gguf_place_of_expert(std::string_view model_type, std::string_view hf_name, int64_t expert, int64_t part) {
  constexpr std::string_view kBias = "_bias";
  const bool bias = hf_name.ends_with(kBias);
  const std::string_view stem = hf_name.substr(0, hf_name.size() - (bias ? kBias.size() : 0));
  for (const GgufName& n : family_with_names(model_type).names_of_experts) {
    Numbers numbers;
    if (!matches(n.hf, stem, numbers)) continue;
    std::string_view name = n.gguf;
    for (int64_t i = 0; i < part; ++i) name.remove_prefix(std::min(name.find(',') + 1, name.size()));
    name = name.substr(0, name.find(','));
    return {.name = replace_all(std::string(name), "#", numbers.layer) + (bias ? ".bias" : ".weight"),
            .expert = expert};
  }
  no_place(model_type, hf_name);
}

}  // namespace tern
