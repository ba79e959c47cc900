#pragma once
// What an update rule gets, and the functions that it has. Each rule is one file, update/NAME.cpp, which defines NAME_rule.

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/thread_scratch.h"
#include "spec/update_rule.h"
#include "tensor/tensor.h"

namespace tern {

using UpdateSumValues = std::array<double, kMaxUpdateSums>;

/// What NORM finds over all gradients of the model.
struct UpdateNorm {
  double gradient_norm = 0;  // before clipping
  double coefficient = 1;    // of clipping: a rule multiplies the gradients by it
  UpdateSumValues sums{};    // of the rule's sums over the model (UpdateSums), if it has such sums
};

/// One parameter, or an interval of its flat elements (UpdateGrain). The tensors hold the elements of that interval; for slots
/// slot_interval says what they hold.
struct UpdateShard {
  const UpdateConfig& config;
  ParameterForm form;  // of the whole parameter
  bool decays;         // true for matrices and tables, false for biases and norms
  double learning_rate;
  int64_t step;  // from 1
  double average_weight =
      1;  // this step's weight in an average over steps: r²/Σ r², where a step's r is the highest rate up
          // to that step
  UpdateNorm norm;
  UpdateSumValues sums{};     // of `measure` over the whole parameter, if the rule has sums over parameters
  Tensor gradient, master;    // f32, or f64 of an f64 model
  Tensor compute;             // the weights, where they are apart from the masters (has_own_masters); else empty
  std::vector<Tensor> slots;  // as the rule's row in spec/update_rules.def says; empty where nothing is kept
  Tensor temporary;           // of as many elements as `temporary` of that row says; the content is undefined
  double decay() const { return decays ? config.option("weight-decay") : 0.0; }
};

/// The functions of a rule.
struct UpdateFunctions {
  /// Changes masters and slots, and `compute` where it is apart from the masters; sets the gradient to zero.
  void (*step)(const UpdateShard&);
  /// Called before `step`, for one block or less: returns its part of the sums that the row declares. If the sums are over the model, it must leave all tensors as they are.
  UpdateSumValues (*measure)(const UpdateShard&) = nullptr;
  /// For rules that compute at other weights than the masters: writes `compute` from masters and slots, bit for bit as `step` does.
  void (*place)(const UpdateShard&) = nullptr;
  /// For rules that multiply matrices: the scratch that threads keep after an f32 step of the parameter.
  ThreadBytes (*thread_bytes)(const UpdateConfig&, const ParameterForm&) = nullptr;
};

#define TERN_UPDATE_RULE(name, ...) extern const UpdateFunctions name##_rule;
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE

/// The numbers that AdamW's kernel needs for a shard. Options beta1, beta2, epsilon, weight-decay.
AdamwStep adamw_step_numbers(const UpdateShard&);
/// AdamW's step with the moments m and v, for rules that leave some parameters to AdamW. Options: the same four.
void adamw_step_of(const UpdateShard&, const Tensor& m, const Tensor& v);
/// SGD's step with these numbers, and with the velocity in slot 0; for rules that scale the step. The gradient becomes zero.
void sgd_step_of(const UpdateShard&, const SgdStep&);

/// thread_bytes of rules that orthogonalize matrices.
ThreadBytes orthogonal_thread_bytes(const UpdateConfig&, const ParameterForm&);

const UpdateFunctions& functions_of(UpdateRule);

/// The elements [begin, end) of a shard that has a whole parameter; they must be whole blocks.
UpdateShard interval_of(const UpdateShard&, int64_t begin, int64_t end);

/// The tensor's elements; no elements if the tensor is empty.
template <class T>
std::span<T> span_or_empty(const Tensor& t) {
  return t.empty() ? std::span<T>() : t.span<T>();
}

}  // namespace tern
