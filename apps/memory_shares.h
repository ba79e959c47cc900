#pragma once
// The memory of a server, shared out among its models.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "infer/memory_fit.h"

namespace tern {

/// Each model gets the least bytes that it needs, and in its turn an even share of the bytes that are still left over.
class MemoryShares {
 public:
  /// `least`: by model, its name for people and the least bytes that it needs (least_room). A model that is alone gets all of the budget,
  /// whatever it needs. Errors: does_not_fit: the models together need more than the budget; the message says how much each needs.
  MemoryShares(const MemoryBudget&, std::vector<std::pair<std::string, int64_t>> least);
  /// The share of the next model. `taken`: the bytes that the model before has taken of its share.
  MemoryBudget next(int64_t taken = 0);

 private:
  MemoryBudget all_;
  std::vector<std::pair<std::string, int64_t>> least_;
  int64_t spare_ = 0;
  size_t at_ = 0;
};

}  // namespace tern
