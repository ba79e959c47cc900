#include <algorithm>
#include <array>
#include <numeric>

#include "program/pipeline_order.h"

// V-Half. Device i runs stages i (chunk 0) and 2P − 1 − i (chunk 1). Every operation takes one slot of a pattern that
// repeats every six; the pattern's peak is P + 2 chunks. Then three passes: weight gradients into the pattern's idle
// slots; everything earlier where a slot is free and the peak does not rise; and once more slot by slot in the order so
// found, now with weight gradients last, in slots where nothing else can run, which frees the slots of the drain.

namespace tern {
namespace {

enum Kind { f0, f1, b1, b0, w1, w0, kKinds };
constexpr int kPeriod = 6;

bool is_forward(Kind k) { return k <= f1; }
bool is_weight(Kind k) { return k >= w1; }

// Slot of the first micro-batch on device i of p; the first backward belongs to chunk 1.
std::array<int, 4> pattern(int p, int i) {
  const int delta = p % 2 == 0 ? 3 : 0;
  return {2 * i, 3 * p - i - 2, 3 * p + delta + 2 * i - 1, 6 * p + delta - i - 2};
}

struct Op {
  int slot;
  Kind kind;
  int device, micro;
};

struct VHalf {
  static constexpr int kNever = 1 << 29;
  int p, micros, cap = p + 2;                    // cap: chunks from forward to weight gradient
  int horizon = kPeriod * (micros + 2 * p + 2);  // slots
  std::vector<int> slot = std::vector<int>(static_cast<size_t>(p) * kKinds * micros, kNever);
  std::vector<std::vector<char>> taken = std::vector<std::vector<char>>(p, std::vector<char>(horizon, 0));
  std::vector<std::vector<int>> held = std::vector<std::vector<int>>(p, std::vector<int>(horizon, 0));
  std::vector<Op> ops;

  int& at(int d, Kind k, int m) { return slot[(static_cast<size_t>(d) * kKinds + k) * micros + m]; }

  // The first slot after all that the operation waits for; kNever while one of them has none.
  int earliest(const Op& o) {
    const int d = o.device, m = o.micro;
    const auto after = [&](int device, Kind k) { return at(device, k, m) + 1; };
    const auto before_it = [&] {
      switch (o.kind) {
        case f0:
          return d > 0 ? after(d - 1, f0) : 0;
        case f1:
          return d + 1 < p ? after(d + 1, f1) : after(d, f0);
        case b1:
          return d > 0 ? std::max(after(d - 1, b1), after(d, f1)) : after(d, f1);
        case b0:
          return d + 1 < p ? std::max(after(d + 1, b0), after(d, f0)) : after(d, b1);
        case w1:
          return after(d, b1);
        default:
          return after(d, b0);
      }
    };
    return std::max(before_it(), m > 0 ? at(d, o.kind, m - 1) + 1 : 0);
  }

  void take(Op o) {
    at(o.device, o.kind, o.micro) = o.slot;
    taken[o.device][o.slot] = 1;
    ops.push_back(o);
  }

  void lay_pattern() {
    for (int d = 0; d < p; ++d)
      for (int k = f0; k <= b0; ++k)
        for (int m = 0; m < micros; ++m) take({pattern(p, d)[k] + kPeriod * m, static_cast<Kind>(k), d, m});
    by_slot();
    const std::vector<Op> backwards = ops;
    for (const Op& b : backwards) {
      if (is_forward(b.kind)) continue;
      Op w{b.slot, b.kind == b1 ? w1 : w0, b.device, b.micro};
      while (taken[w.device][w.slot]) ++w.slot;
      take(w);
    }
    for (const Op& o : ops) {  // what changes in each slot; then the sums up to it
      auto& line = held[o.device];
      if (is_forward(o.kind)) ++line[o.slot];
      if (is_weight(o.kind) && o.slot + 1 < horizon) --line[o.slot + 1];
    }
    for (auto& line : held) std::partial_sum(line.begin(), line.end(), line.begin());
    by_slot();
  }

  void by_slot() {
    std::stable_sort(ops.begin(), ops.end(), [](const Op& a, const Op& b) { return a.slot < b.slot; });
  }

  void squeeze() {
    for (Op& o : ops) {
      const int best = is_forward(o.kind) ? earlier_forward(o) : earlier(o);
      if (best == o.slot) continue;
      taken[o.device][o.slot] = 0;
      taken[o.device][best] = 1;
      auto& line = held[o.device];
      if (is_forward(o.kind))
        for (int t = best; t < o.slot; ++t) ++line[t];
      if (is_weight(o.kind))
        for (int t = best + 1; t <= o.slot; ++t) --line[t];
      o.slot = at(o.device, o.kind, o.micro) = best;
    }
  }
  int earlier(const Op& o) {
    int t = earliest(o);
    while (t < o.slot && taken[o.device][t]) ++t;
    return t;
  }
  int earlier_forward(const Op& o) {  // it holds a chunk longer: never past a slot that holds as many as may be
    int best = o.slot;
    const int first = earliest(o);
    for (int t = o.slot - 1; t >= first && held[o.device][t] < cap; --t)
      if (!taken[o.device][t]) best = t;
    return best;
  }

  PipelineOp operation(const Op& o) const {
    const Phase phase = is_forward(o.kind) ? Phase::forward : is_weight(o.kind) ? Phase::weight : Phase::backward;
    const bool chunk1 = o.kind == f1 || o.kind == b1 || o.kind == w1;
    return {phase, chunk1 ? 2 * p - 1 - o.device : o.device, o.micro};
  }

  PipelineOrder retime(int num_micro) {
    std::vector<std::vector<Op>> line(p), waiting(p);  // forwards and backwards in order; weight gradients to come
    by_slot();
    for (const Op& o : ops)
      if (!is_weight(o.kind) && o.micro < num_micro) line[o.device].push_back(o);
    std::fill(slot.begin(), slot.end(), kNever);
    PipelineOrder order(p);
    std::vector<size_t> next(p, 0), released(p, 0);
    std::vector<int> holds(p, 0);
    for (size_t left = static_cast<size_t>(kKinds) * num_micro * p, t = 0; left > 0; ++t)
      for (int d = 0; d < p; ++d) {
        const bool more = next[d] < line[d].size();
        if (more && earliest(line[d][next[d]]) <= static_cast<int>(t) &&
            !(is_forward(line[d][next[d]].kind) && holds[d] == cap)) {
          const Op o = line[d][next[d]++];
          at(d, o.kind, o.micro) = static_cast<int>(t);
          if (is_forward(o.kind))
            ++holds[d];
          else
            waiting[d].push_back({0, o.kind == b1 ? w1 : w0, d, o.micro});
          order[d].push_back(operation(o));
          --left;
        } else if (released[d] < waiting[d].size()) {
          order[d].push_back(operation(waiting[d][released[d]++]));
          --holds[d];
          --left;
        }
      }
    return order;
  }
};

}  // namespace

PipelineOrder v_half_order(const PipelineShape& shape, const PipelineTimes&) {
  VHalf v{shape.num_devices, std::max(shape.num_micro, 2 * shape.num_devices)};
  v.lay_pattern();
  v.squeeze();
  return v.retime(shape.num_micro);
}

}  // namespace tern
