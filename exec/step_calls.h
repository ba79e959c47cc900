#pragma once
// Functions that a step calls, given by the caller of execute.

#include <cstddef>
#include <functional>

namespace tern {

/// Functions that a step calls. They are called while no sum over ranks is running. An empty function is not called.
struct StepCalls {
  std::function<void(size_t micro)> before = {},
                                    after = {};  // before the first and after the last pass of each micro-batch
  std::function<void()> between = {};            // before NORM; it may change the gradients
};

}  // namespace tern
