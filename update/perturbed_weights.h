#pragma once
// Training without backward passes. The loss is taken at weights that are moved a little along a random direction, and against it; the
// difference says how steep the loss is that way, and this slope times the direction takes the place of the gradient. Only the seed is kept:
// no gradients, no activations, and one unit's moved copy at a time.
// Sources: MeZO, Malladi et al. 2023, arXiv:2305.17333; ZO2, Wang et al. 2025, arXiv:2503.12668 (units come from a lower tier,
// each gets the update of the previous step when it is brought in next). Both recalled. Unlike theirs the weights themselves
// are not moved to and fro, which would leave roundings: moved copies are made from them.

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

/// Bytes that PerturbedWeights takes from the arena (MemoryClass::gradients): the moved copy of a unit (a tied head's with its table), or
/// the unit's slope times direction if that is longer; if weights lie in a file, also the unit's weights.
int64_t perturbed_bytes(const ModelSpec&, DType weights, const std::vector<bool>& in_file = {});

/// Lends each unit's moved weights to a pass through the units in their order. For n micro-batches the pass acquires a unit 2n times: n
/// times moved along the direction, then n times against it (program/two_forwards.h).
/// Bits    of masters and state depend on seed, steps, slopes and rates alone: not on threads, nor on when a unit is moved or where it lies.
class PerturbedWeights final : public WeightLender {
 public:
  /// pass: over the same weights; the trained ones are dense, and pass.gradients are empty. stored: the file with some weights or slots,
  /// or nullptr. stored->begin was called with all parameters that have fields there, in order. All arguments must outlive this object.
  PerturbedWeights(const ModelSpec&, const ModelWeights&, UpdatePass&, const ZerothOrder&, StoredStates* stored,
                   Arena&);

  /// The next pass is that of step `step`, with `micros` micro-batches. acquire moves a unit that is still to be moved.
  void begin_pass(int64_t step, int64_t micros);
  /// Called after the pass. slope: (L₊ - L₋) / 2ε. Each unit is moved by the step of the UpdatePass (begin_step) when
  /// it is acquired next, or by settle. Without a slope no unit is moved.
  void end_pass(std::optional<double> slope);
  /// Moves the units that are still to be moved. Temporaries of the rule: the arena's.
  void settle(Arena&);
  /// The next passes read the weights as they are, each unit once, in their order. Only after settle.
  void begin_reading();

  /// The weights of a parameter that lies in the file, until the next read or pass. Only between passes, after settle.
  Tensor read(size_t parameter);

  const UnitWeights& acquire(int unit) override;
  void release(int unit) noexcept override {
    --held_;
    (void)unit;
  }

 private:
  // A tensor of a unit that is lent: of a parameter of its own, or a tied head's table, which is the embedding's.
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
