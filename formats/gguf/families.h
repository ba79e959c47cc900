#pragma once
// The table of families that GGUF and tern share. For formats/gguf/ alone.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hf/family.h"

namespace tern {

/// A tensor's name in both formats.
struct GgufName {
  // Without ".weight" or ".bias". '#' stands for the layer, '@' for the expert. Where `hf` is one tensor of all experts, `gguf`
  // may be n names, separated by ','; the rows of each expert alternate between them: row i goes to name i mod n.
  std::string_view hf, gguf;
};
/// One row for each family. The columns after `names` say what llama.cpp's code fixes for the architecture
/// and no key of a file states.
struct GgufFamily {
  // Several rows may have one architecture. Its files are read by the first of these rows; files with experts by the first that
  // has `mixture`, other files with windows by the first that has `windowed`.
  std::string_view model_type, architecture;
  std::span<const GgufName> names, names_of_experts = {};
  bool interleaved = false;              // GgufPlace::Heads
  std::string_view activation = "silu";  // as config.json says it
  bool windowed = false;
  bool multipliers = false;      // keys for Granite's factors
  int64_t unturned_every = 0;    // every unturned_every-th layer does not rotate queries and keys; 0: all rotate
  bool without_windows = false;  // llama.cpp has no windows for it, even where config.json has
  bool untied = false, without_biases = false;
  bool tied = false;                                      // the head is the table of tokens, always
  bool sorted = false;                                    // GgufPlace::sorted
  bool plus_one = false;                                  // GgufPlace::plus_one
  bool mixture = false;                                   // experts in every layer
  bool normalized_experts = true;                         // their weights are divided by their sum
  bool untruncated_yarn = false;                          // yarn's ramp between dimensions that need not be whole
  bool needs_window = false, needs_expert_width = false;  // keys without which llama.cpp loads no file
  int64_t full_every = 0;                                 // every full_every-th layer has no window; 0: no such rule
  // The family's model with exactly so many layers divides scores by √(width / heads), its others by √head_dim.
  int64_t layers_of_wide_heads = 0;
  std::string_view switch_of_branches = "";  // the key that says whether attention and MLP run beside each other
};
/// The families that have a row, by model_type.
std::vector<std::string> gguf_families();
/// The family's row; null: it is not in the table.
const GgufFamily* gguf_family(std::string_view model_type);
/// The row of an architecture; null: there is none. With `mixture` its first row with experts, with `windowed` alone its first
/// row with windows; otherwise, or if there is no such row, its first row.
const GgufFamily* gguf_family_of_architecture(std::string_view architecture, bool windowed = false,
                                              bool mixture = false);
/// The key of the norms' epsilon, without the architecture.
std::string_view gguf_epsilon_key(const HfFamily&);

}  // namespace tern
