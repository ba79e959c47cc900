#pragma once
// adapter_config.json of a PEFT directory: which modules of a model have a low-rank adapter, of what rank and scale.
// Source: LoraConfig of peft 0.21 and the order in which it looks a module up.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

/// A set of modules, by path: "model.layers.0.self_attn.q_proj".
struct PeftTargets {
  std::vector<std::string> names;  // the path, or its last parts
  std::string regex;               // of the whole path, where it is not empty
  bool all_linear = false;         // every linear layer but the head
  bool empty() const { return names.empty() && regex.empty() && !all_linear; }
};
struct PeftConfig {  // what adapter_config.json says
  PeftTargets targets, excluded;
  std::optional<std::vector<int64_t>> layers;  // layers_to_transform; absent: all
  int64_t rank = 8;
  double alpha = 8;
  std::vector<std::pair<std::string, int64_t>> rank_pattern;  // the first that matches the end of the path
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool rank_stabilized = false;    // scale alpha/√rank, not alpha/rank
  double dropout = 0;              // of training
  std::vector<std::string> saved;  // modules_to_save: ends of paths of modules that the adapter holds whole
  bool magnitude = false;          // use_dora
  std::string base_model;          // what it was trained on, as its makers called it
};

/// Errors  bad_file "PLACE: KEY: …": a method that is not LoRA; a key that is set and that tern does not follow; values
/// out of range.
PeftConfig parse_peft_config(std::string_view text, std::string_view place);
PeftConfig read_peft_config(const std::string& path);
/// The file's text as PEFT writes it, for readers of any version. Reading it gives the same configuration again.
std::string peft_config_json(const PeftConfig&);

/// Rank and scale of the adapter of a module. peft_adapter_of returns nothing for a module without one. Errors  bad_file:
/// a pattern that is no regular expression, or needs too many steps.
struct PeftAdapter {
  int64_t rank = 0;
  double scale = 1;
};
std::optional<PeftAdapter> peft_adapter_of(const PeftConfig&, std::string_view module);

}  // namespace tern
