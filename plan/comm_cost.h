#pragma once
// Times of collectives and transfers in closed form, from latency and bandwidth per level of links.

#include <cstdint>

#include "hardware/machine.h"

namespace tern {

/// A group of `ranks` devices, each `stride` after the one before. The first may be any multiple of the group's span.
struct RankGroup {
  int64_t ranks = 1, stride = 1;
};

/// A level joins domains of the level inside it (the innermost level: devices). If the group has ranks in d of those,
/// B·(1 − 1/d) bytes enter each, over the links of its own ranks there alone, as all groups of a machine communicate at
/// once. The time is the slowest level's plus the latencies of all levels: each has one for a step of a ring over those
/// domains that one of its own joins (k − 1 for k). Units: bytes of the whole (gathered) tensor; picoseconds.
/// Source  hierarchical rings, alpha–beta; ours.
int64_t all_gather_ps(const Machine&, RankGroup, int64_t bytes);
int64_t reduce_scatter_ps(const Machine&, RankGroup, int64_t bytes);  // as all_gather_ps
int64_t all_reduce_ps(const Machine&, RankGroup, int64_t bytes);      // the sum of both
/// Every rank sends `bytes` in equal parts to all.
int64_t all_to_all_ps(const Machine&, RankGroup, int64_t bytes);
/// One device sends to the device `distance` after it. inside: whether both are known to lie in one domain of the first
/// level.
int64_t send_ps(const Machine&, int64_t distance, bool inside, int64_t bytes);

/// ceil(amount / rate) in picoseconds, at most kMostPs, as all times here.
int64_t ps_of(double amount, double rate);

}  // namespace tern
