#pragma once
// Which matrices of a unit carry an adapter y += scale·B·(A·x), and of what rank.

#include <cstdint>
#include <string_view>
#include <vector>

namespace tern {

/// The matrix that an adapter stands beside, as the model's files hold it. query_key_value and gate_up: all rows of a matrix
/// that the files hold fused. Each expert has its own gate, up and down, and so has a shared MLP that every token takes.
enum class AdaptedModule : uint8_t {
  query,
  key,
  value,
  query_key_value,
  out,
  query_down,  // of latent attention, with the next three
  query_up,
  kv_down,
  kv_up,
  gate,
  up,
  gate_up,
  down,
};
/// "query". The names of an adapter's parameters contain this name, and their random numbers are keyed by those names.
std::string_view name_of(AdaptedModule);

struct ModuleAdapter {
  AdaptedModule module;
  int64_t rank = 0;
  double scale = 1;        // alpha/rank, or alpha/√rank
  int64_t pool = 1;        // A reads the mean of each `pool` neighbouring inputs (QA-LoRA)
  int64_t repeat = 1;      // each row of B counts for `repeat` neighbouring rows of the weight (Q-BLoRA)
  bool magnitude = false;  // the length of each row of weight + scale·B·A is trained on its own (DoRA)
  double dropout = 0;      // in training this share of A's inputs is left out, the others are scaled by 1/(1 - dropout)
  bool elastic = false;    // two trained factors scale paths that bypass A and B (IR-QLoRA, model/elastic.h)
  friend bool operator==(const ModuleAdapter&, const ModuleAdapter&) = default;
};
/// The adapters of one unit, at most one for each module.
using UnitAdapters = std::vector<ModuleAdapter>;

/// Adapters that run side by side are numbered from 0. This number means no adapter: the model alone.
inline constexpr int kNoAdapter = -1;

/// The module's adapter; nullptr: the module has none.
const ModuleAdapter* find_adapter(const UnitAdapters&, AdaptedModule);

}  // namespace tern
