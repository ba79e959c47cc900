#pragma once
// A lower bound of the makespan, built from the last stage to the first. Every term grows with every argument, so
// partial pipelines can be compared number by number.
//
// c micro-batches. Stage i: forward f, backward b, weight gradient w; p = f + b + w; r = f + b; link to the next stage: of, ob. A
// prime marks the next stage's value.
//   t  a micro-batch's round trip from its forward at i to its backward at i:  r + of + ob + t'
//   y  from the first forward at i to the end of the last backward at i:
//        one forward, one backward, with W forwards before the first backward:  max(
//          y' + r + of + ob,                        the later stages, and the transfers to them and from them
//          c·p,                                     the device's own work
//          t + (c − W)·f + (c − 1)·b,               the first round trip, then the rest of the device's work
//          ((c − 1) div W + 1)·t,                   a forward waits for the backward of the micro-batch W before it
//          t + (c − 1)·max(of, ob))                 the link carries one transfer after another
//   z  from the first forward at i to the end of all devices from i on, tails included: max(z' + f + of, y + tail, c·p + tail)
//   g  from the step's begin: max(g', begin + z)
// GPipe: one flow shop of equal jobs for the forwards, one for the backwards; Σ + (c − 1)·(max(f, of) + max(b, ob)) is exact. Zero
// bubble: y has c·r for c·p and lacks the third and fourth term; z has y + w + tail for y + tail. Chunks: the same for each virtual
// stage; besides, no makespan is below u: the mean over the devices of way in + c·work (+ way out if backwards end the order).
// Proof of each term: docs/planner.md. The tests compare every term with the simulator.

#include "planner/instance/chain_impl.h"

namespace tern {

/// What a stage costs, ps. Of one micro-batch: forward (f), backward (b), weight (w), pass = f + b (r), work = f + b +
/// w (p).
struct StageCost {
  int64_t work = 0, pass = 0, forward = 0, backward = 0, weight = 0;
  int64_t rest = 0;  // q = (c − W)·f + (c − 1)·b: what the stage owes after its first round trip
  int64_t tail = 0, begin = 0;
  int64_t done = 0;  // c·p + tail, or a lower bound of it
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

/// What one micro-batch takes on the link to the next stage, ps.
struct LinkCost {
  int64_t forward = 0, backward = 0;
};

/// Bounds of the stages from one stage to the last, ps. The letters are those of the comment above.
struct Suffix {
  int64_t round_trip = 0;             // t
  int64_t span = 0;                   // y: to the end of the last backward
  int64_t finish = 0;                 // z: to the end of all devices
  int64_t step = 0;                   // g: from the step's begin
  int64_t forward = 0, backward = 0;  // GPipe: max(f, of), max(b, ob)
  int64_t mean = 0;                   // chunks: number of devices times u
  friend bool operator==(const Suffix&, const Suffix&) = default;
};

/// Sums over the stages before one stage, ps: for each number the least over all ways to lay these stages.
struct Prefix {
  int64_t sum = 0;      // Σ (r + of + ob)
  int64_t forward = 0;  // Σ (f + of)
  int64_t most = 0;     // the largest most_share: rest (1F1B), work (GPipe, simple) or c·work (zero bubble, chunks)
  int64_t mean = 0;     // Σ mean_share
  bool reachable = false;
};

/// A whole number below x; 0 for x ≤ 0. Doubles carry sums of integers below 2^60 to about 1e-13; this gives up more than that.
inline int64_t floor_safely(double x) { return x <= 0 ? 0 : static_cast<int64_t>(x * (1 - 1e-11)) - 1; }

/// The suffix that begins with `stage`, given the one after it.
Suffix extend(const Chain&, int stage, const StageCost&, const LinkCost&, const Suffix& next);
/// The bound of an assignment whose stages from `stage` on are `s` and whose stages before it cost at least `p`.
int64_t complete(const Chain&, int stage, const Suffix& s, const Prefix& p);
/// Writes to `out` the numbers of a suffix that matter for this chain, and returns their count, which is
/// fixed for a chain and at most kMostNumbers. A suffix can take another's place if none of its numbers is larger.
inline constexpr int kMostNumbers = 5;
inline int numbers_of(const Chain& c, const Suffix& s, int64_t* out) {
  int n = 0;
  const auto put = [&](int64_t x) { out[n++] = x; };
  put(s.round_trip);
  if (c.kind == BoundKind::gpipe)
    put(s.forward), put(s.backward);
  else
    put(s.span);
  const bool ends = c.has_tail || c.has_begin || c.kind == BoundKind::zero_bubble || c.kind == BoundKind::chunked;
  if (ends && c.kind != BoundKind::simple) put(s.finish), put(s.step);
  if (c.kind == BoundKind::chunked) put(s.mean);
  return n;
}
inline int count_of_numbers(const Chain& c) {
  int64_t unused[kMostNumbers];
  return numbers_of(c, {}, unused);
}
/// What a stage adds to Prefix::mean.
int64_t mean_share(const Chain&, int stage, const StageCost&, const LinkCost&);
/// What a stage adds to Prefix::most.
int64_t most_share(const Chain&, const StageCost&);

}  // namespace tern
