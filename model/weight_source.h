#pragma once
// Where a pass gets the units' weights from. A pass holds a lease on a unit's weights while
// it runs the unit, so that weights that are read from a disk take memory for that time only.
// For weights that stay in memory acquire and release do nothing.

#include <utility>

#include "model/weights.h"

namespace tern {

/// Provides the weights of a unit, and may remove them when nobody holds them.
class WeightLender {
 public:
  virtual ~WeightLender() = default;
  /// Returns when the weights of `unit` are there. They stay at this place until each acquire has been released.
  virtual const UnitWeights& acquire(int unit) = 0;
  virtual void release(int unit) noexcept = 0;
};

/// The right to read one unit's weights; ends with its destructor.
class WeightLease {
 public:
  explicit WeightLease(const UnitWeights& resident) : weights_(&resident) {}
  WeightLease(WeightLender& lender, int unit) : weights_(&lender.acquire(unit)), lender_(&lender), unit_(unit) {}
  WeightLease(WeightLease&& other) noexcept
      : weights_(other.weights_), lender_(std::exchange(other.lender_, nullptr)), unit_(other.unit_) {}
  WeightLease& operator=(WeightLease&&) = delete;
  ~WeightLease() {
    if (lender_) lender_->release(unit_);
  }
  const UnitWeights& operator*() const { return *weights_; }

 private:
  const UnitWeights* weights_;
  WeightLender* lender_ = nullptr;
  int unit_ = 0;
};

/// A reference to resident weights (ModelWeights convert to it) or to a lender. The weights or the lender must outlive it.
class WeightSource {
 public:
  WeightSource(const ModelWeights& resident) : resident_(&resident) {}  // NOLINT: resident weights are a source
  WeightSource(WeightLender& lender) : lender_(&lender) {}              // NOLINT: and so is a lender
  WeightLease acquire(int unit) const {
    return lender_ ? WeightLease(*lender_, unit) : WeightLease(resident_->units.at(static_cast<size_t>(unit)));
  }
  /// The resident weights; null: a lender provides them.
  const ModelWeights* resident() const { return resident_; }

 private:
  const ModelWeights* resident_ = nullptr;
  WeightLender* lender_ = nullptr;
};

}  // namespace tern
