#pragma once
// What is called in the midst of a step.

#include <cstddef>
#include <functional>

namespace tern {

/// Calls that execute makes on the way. No sum over ranks is under way then. An empty function is not called.
struct StepCalls {
  std::function<void(size_t micro)> before = {},
                                    after = {};  // before the first and after the last pass of each micro-batch
  std::function<void()> between = {};            // before NORM; it may change the gradients
};

}  // namespace tern
