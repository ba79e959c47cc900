#pragma once
// Which units' saved values are computed again before the backward instead of kept.

#include <array>
#include <cstdint>
#include <string_view>

#include "spec/model_spec.h"

namespace tern {

enum class Recompute : uint8_t { none, attention, full };
inline constexpr std::array kRecomputes{Recompute::none, Recompute::attention, Recompute::full};
std::string_view name_of(Recompute);  // "none", "attention", "full"
/// Whether a unit's saved values are computed again before its backward instead of kept.
bool is_recomputed(const Unit&, Recompute);

/// What other frameworks make again of a block that keeps the rest. Runs of tables alone have it; plans have Recompute.
///   scores         the scores of attention, and what they weigh. Source: Korthikanti et al. 2022, arXiv:2205.05198
///                  ("selective"; Megatron's core attention)
///   operations     all but attention, the reduce-scatter of a tensor group, the largest magnitudes of operands that are narrowed to 8
///                  bits, and every product but each second one, in the order q, k, v, out, gate, up, down. Source: TorchTitan,
///                  parallelize_llama.py, _save_list ("selective", "op")
///   second_blocks  every second block, whole. Source: the same ("selective", 2)
enum class PartRecompute : uint8_t { none, scores, operations, second_blocks };
inline constexpr std::array kPartRecomputes{PartRecompute::none, PartRecompute::scores, PartRecompute::operations,
                                            PartRecompute::second_blocks};
std::string_view name_of(PartRecompute);  // "none", "scores", "operations", "second blocks"
/// The share of a unit's multiply-adds in products that PartRecompute::operations makes again.
double second_products_share(const Unit&);

}  // namespace tern
