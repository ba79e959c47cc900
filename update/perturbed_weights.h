#pragma once
// Training without backward passes. A step takes the loss twice: at weights that are moved a little along a random direction, and at weights
// that are moved against it. The difference gives the slope of the loss in that direction. Slope times direction takes the place of the
// gradient. Only the seed is kept: no gradients, no activations, and the moved copy of one unit at a time.
// Sources: MeZO, Malladi et al. 2023, arXiv:2305.17333; ZO2, Wang et al. 2025, arXiv:2503.12668 (units come from a lower tier,
// and a unit gets a step's update when it is brought in for the next step). Both recalled. Unlike there, the weights themselves are
// not moved to and fro, which would leave rounding errors: the moved copies are made from them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/weight_source.h"
#include "update/direction.h"
#include "update/stored_states.h"

namespace tern {

struct ZerothOrder {
  double perturbation = 1e-3;  // how far along the direction, both ways
  uint64_t seed = 1;
};

/// Bytes that PerturbedWeights takes from the arena (MemoryClass::gradients): the largest unit's moved copy (a tied head's includes its
/// table), or slope times direction if that is longer; and, if weights lie in a file, the largest such unit's weights. in_file: by unit.
int64_t perturbed_bytes(const ModelSpec&, DType weights, const std::vector<bool>& in_file = {});

/// Lends each unit's moved weights to a pass through the units in their order. For n micro-batches the pass acquires a unit 2n times: n
/// times moved along the direction, then n times moved against it (program/two_forwards.h).
/// Bits    of masters and state depend on seed, steps, slopes and rates alone: not on threads, on when a unit is moved, or where it lies.
class PerturbedWeights final : public WeightLender {
 public:
  /// pass: over the same weights; the trained ones are dense, and pass.gradients are empty. stored: the file with some weights or slots;
  /// nullptr: there is none. stored->begin was called with all parameters that have fields there, in order. All arguments must outlive this object.
  PerturbedWeights(const ModelSpec&, const ModelWeights&, UpdatePass&, const ZerothOrder&, StoredStates* stored,
                   Arena&);

  /// The next pass is that of step `step`, with `micros` micro-batches. If a unit lacks the update of the step before, acquire makes it.
  void begin_pass(int64_t step, int64_t micros);
  /// Called after the pass. slope: (L₊ - L₋) / 2ε. Each unit gets the update of the UpdatePass's step (begin_step) when
  /// it is acquired next, or by settle. Without a slope no unit gets an update.
  void end_pass(std::optional<double> slope);
  /// Updates the units that still lack the last step's update. `arena`: for the rule's temporaries.
  void settle(Arena&);
  /// The next passes read the weights unmoved, each unit once, in the units' order. Only after settle.
  void begin_reading();

  /// The weights of a parameter that lies in the file; valid until the next read or pass. Only between passes, after settle.
  Tensor read(size_t parameter);

  const UnitWeights& acquire(int unit) override;
  void release(int unit) noexcept override {
    --held_;
    (void)unit;
  }

 private:
  // One tensor of a unit that is lent: a parameter of the unit, or for a tied head the table, which is the embedding's parameter.
  struct Lent {
    size_t parameter;
    Tensor* place;
    int64_t moved_at, wide_at;  // bytes into moved_; into the gradient and whole_
    bool own;
  };
  void bring(int unit, Arena&);
  void bring_stored(const Lent&, Arena&);
  void lend_moved(int unit, double scale);
  Tensor wide_view(const Tensor& memory, const Lent&) const;
  Tensor master_of(const Lent&) const;
  bool in_file(size_t parameter) const;

  const ModelSpec& spec_;
  UpdatePass& pass_;
  ZerothOrder config_;
  StoredStates* stored_;
  ModelWeights lent_;
  std::vector<std::vector<Lent>> units_;
  DType type_, wide_;
  Tensor moved_, whole_;
  Direction direction_;
  struct Move {
    Direction direction;
    double slope;
  };
  std::optional<Move> move_;
  Arena rule_memory_;  // of units moved within a pass; stays empty: why_not_stored refuses rules with temporaries
  int64_t micros_ = 0, taken_ = 0, held_ = 0;
  int unit_ = -1;
  bool reads_ = false;
};

}  // namespace tern
