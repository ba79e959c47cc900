#pragma once
// Times of collectives and transfers in closed form, from latency and bandwidth per level of links.

#include <cstdint>

#include "hardware/machine.h"

namespace tern {

/// A group of `ranks` devices, each `stride` after the one before. The first may be any multiple of the group's span.
struct RankGroup {
  int64_t ranks = 1, stride = 1;
};

/// B bytes of the whole (gathered) tensor; result in ps. A level of links joins domains of the level inside it (the
/// innermost level: devices). Per level: c of the group's ranks lie in one such domain; d = ⌈ranks/c⌉ domains have ranks
/// of the group; k of these d lie in one domain of the level. Time = the largest of all levels' B·(1 − 1/d)/(c·bandwidth),
/// plus (k − 1)·latency of each level. Only c links of a domain serve this group: the others serve groups beside it.
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
