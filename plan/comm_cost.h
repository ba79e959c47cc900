#pragma once
// Times of collectives and transfers in closed form, from latency and bandwidth per level of links.

#include <cstdint>

#include "hardware/machine.h"

namespace tern {

/// A group of `ranks` devices, `stride` apart. Groups are aligned: for some n and r < stride the first device is n·ranks·stride + r.
struct RankGroup {
  int64_t ranks = 1, stride = 1;
};

/// Time in ps; B: bytes of the gathered tensor. A level of links joins smaller domains (innermost level: devices) into
/// larger ones. At each level: c: ranks of the group in a smaller domain; d = ⌈ranks/c⌉: smaller domains with ranks
/// of the group; k: how many of the d lie in one larger domain. Time: max over levels of B·(1 − 1/d)/(c·bandwidth)
/// + Σ over levels of (k − 1)·latency. c links of a smaller domain serve the group; its other links serve other groups.
/// Source  ours: hierarchical rings, alpha–beta model.
int64_t all_gather_ps(const Machine&, RankGroup, int64_t bytes);
int64_t reduce_scatter_ps(const Machine&, RankGroup, int64_t bytes);  // as all_gather_ps
int64_t all_reduce_ps(const Machine&, RankGroup, int64_t bytes);      // all_gather_ps + reduce_scatter_ps
/// Every rank sends `bytes`, an equal part to each rank.
int64_t all_to_all_ps(const Machine&, RankGroup, int64_t bytes);
/// One device sends to another one, whose number is `distance` higher. inside: both certainly lie in one domain of the
/// innermost level.
int64_t send_ps(const Machine&, int64_t distance, bool inside, int64_t bytes);

/// ceil(amount / rate) in picoseconds, at most kMostPs.
int64_t ps_of(double amount, double rate);

}  // namespace tern
