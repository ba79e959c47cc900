#pragma once
// A lender for tests: the weights of a unit exist in a copy while somebody holds a lease, and are overwritten after.

#include <algorithm>
#include <cstring>
#include <map>

#include "model/visit_weights.h"
#include "model/weight_source.h"

namespace tern {

class CopyLender final : public WeightLender {
 public:
  CopyLender(const ModelSpec& spec, const ModelWeights& original) : spec_(spec), original_(original) {}

  const UnitWeights& acquire(int unit) override {
    Loan& loan = loans_[unit];
    if (loan.leases++ == 0) copy(unit, loan);
    ++num_leases;
    most_units = std::max(most_units, static_cast<int>(loans_.size()));
    return loan.weights;
  }
  void release(int unit) noexcept override {
    Loan& loan = loans_.at(unit);
    if (--loan.leases > 0) return;
    for (const Tensor& t : loan.copies) std::memset(t.data(), 0xff, static_cast<size_t>(t.bytes()));
    loans_.erase(unit);
  }
  bool all_released() const { return loans_.empty(); }

  int num_leases = 0, most_units = 0;  // in all; of units at a time

 private:
  struct Loan {
    int leases = 0;
    UnitWeights weights;
    std::vector<Tensor> copies;
  };
  void copy(int unit, Loan& loan) {
    loan.weights = original_.units.at(static_cast<size_t>(unit));
    const auto copy_tensor = [&](Tensor& t) {
      const Tensor from = t;
      t = arena_.allocate(from.dtype(), from.shape(), MemoryClass::weights);
      std::memcpy(t.data(), from.data(), static_cast<size_t>(from.bytes()));
      loan.copies.push_back(t);
    };
    for_each_parameter(spec_, unit, loan.weights, [&](const ParameterInfo&, Tensor& t) { copy_tensor(t); });
    if (auto* head = std::get_if<HeadWeights>(&loan.weights); head && spec_.head().tied)
      copy_tensor(dense_rows(head->projection));
  }

  const ModelSpec& spec_;
  const ModelWeights& original_;
  Arena arena_;
  std::map<int, Loan> loans_;
};

}  // namespace tern
