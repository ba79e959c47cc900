#pragma once
// Which matrices of a unit carry an adapter y += scale·B·(A·x), and of what rank.

#include <cstdint>
#include <string_view>
#include <vector>

namespace tern {

/// What an adapter stands beside: a matrix as the model's files have it. query_key_value and gate_up stand for all rows of a
/// matrix that the files hold as one. Each expert, and a shared MLP that every token takes, has its own gate, up and down.
enum class AdaptedModule : uint8_t {
  query,
  key,
  value,
  query_key_value,
  out,
  query_down,  // latent attention's
  query_up,
  kv_down,
  kv_up,
  gate,
  up,
  gate_up,
  down,
};
/// "query"; stands in the names of parameters, by which their random numbers are keyed.
std::string_view name_of(AdaptedModule);

struct ModuleAdapter {
  AdaptedModule module;
  int64_t rank = 0;
  double scale = 1;        // alpha/rank, or alpha/√rank
  int64_t pool = 1;        // A reads the mean of each `pool` neighbouring inputs (QA-LoRA)
  int64_t repeat = 1;      // each row of B counts for `repeat` neighbouring rows of the weight (Q-BLoRA)
  bool magnitude = false;  // the length of each row of weight + scale·B·A is trained by itself (DoRA)
  double dropout = 0;      // in training this share of A's inputs is left out, the others are scaled by 1/(1 - dropout)
  bool elastic = false;    // with two trained paths past A and past B (IR-QLoRA, model/elastic.h)
  friend bool operator==(const ModuleAdapter&, const ModuleAdapter&) = default;
};
/// The adapters of one unit, at most one for each module.
using UnitAdapters = std::vector<ModuleAdapter>;

/// Adapters that run side by side are numbered from 0. This number stands for none of them: the model without an adapter.
inline constexpr int kNoAdapter = -1;

/// The module's adapter; nullptr: it carries none.
const ModuleAdapter* find_adapter(const UnitAdapters&, AdaptedModule);

}  // namespace tern
