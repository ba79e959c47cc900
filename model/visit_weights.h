#pragma once
// Visits the parameters of a model in one fixed order. Load, save, initialise, count and update use it.

#include <functional>
#include <string>
#include <vector>

#include "model/fragment.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/tensor.h"

namespace tern {

struct ParameterInfo {
  std::string name;  // ours: "layers.0.attention.qkv.weight"; keys random numbers and checkpoints
  Shape shape;
  int unit;    // index in ModelSpec::units of the unit that owns it
  bool decay;  // matrices and tables decay; biases and norms do not
  bool is_norm_weight;
  double initial;  // the value of norms and biases in a new model
  std::vector<Fragment> fragments;
};
/// Calls `visit` once for every parameter of the model itself (not of adapters), frozen or not, in
/// the order of the units, with its tensor in `weights`. The tensor may be empty; then only the
/// info is of use. A tied head's table is visited once, as the embedding's. The order is fixed,
/// because updates and norms sum in it. Errors: TERN_CHECK: a linear whose weight is not dense.
void for_each_parameter(const ModelSpec&, ModelWeights& weights,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// The same of one unit alone.
void for_each_parameter(const ModelSpec&, int unit, UnitWeights& weights,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit);
std::vector<ParameterInfo> parameters(const ModelSpec&);
/// Calls `visit` for all that an update changes: the parameters of units that are not frozen and, after each linear, the trained tensors of its
/// branches (a, b, magnitude, elastic), which the model's files do not hold. Without frozen units and adapters the same as for_each_parameter.
void for_each_trained(const ModelSpec&, ModelWeights& weights,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit);
std::vector<ParameterInfo> trained_parameters(const ModelSpec&);
/// The same for the trained tensors of branches alone.
void for_each_adapter(const ModelSpec&, ModelWeights& weights,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// Calls `visit` for every tensor that belongs to the model but is no parameter: it is
/// read, written and kept in checkpoints, but never trained. f32, or f64 of an f64 model.
void for_each_fixed(const ModelSpec&, ModelWeights& weights,
                    const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// Calls `visit` for the linears of for_each_parameter, each with its weight's info; a tied projection is visited last.
void for_each_linear(const ModelSpec&, ModelWeights& weights,
                     const std::function<void(const ParameterInfo& weight, Linear&)>& visit);
/// The tensors of `weights` in the order of parameters(spec), and in that of trained_parameters(spec).
std::vector<Tensor*> tensors(const ModelSpec&, ModelWeights& weights);
std::vector<Tensor*> trained_tensors(const ModelSpec&, ModelWeights& weights);

}  // namespace tern
