#include "train/train_state.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "model/model_files.h"
#include "model/not_finite.h"
#include "train/checkpoint.h"

namespace tern {
namespace {

// As a run begins: the model's own from its files or drawn, new adapters.
ModelWeights first_weights(const TrainSettings& s, const TrainInputs& in, DType dtype, Arena& arena) {
  ModelWeights weights;
  if (s.from_scratch) {
    weights = allocate_weights(in.spec, dtype, MemoryClass::weights, arena);
    initialize_weights(in.spec, weights, s.seed);
  } else {
    require_finite(in.dir.weights);
    weights = load_weights(in.spec, in.dir.path, dtype, arena);
  }
  initialize_adapters(in.spec, weights, s.seed);
  return weights;
}

bool has_frozen(const ModelSpec& spec) {
  return std::any_of(spec.units.begin(), spec.units.end(), [](const Unit& u) { return u.frozen; });
}

// Where masters have other values, and no checkpoint holds what is frozen.
ModelWeights weights_beside_masters(const TrainSettings& s, const TrainInputs& in, Arena& arena) {
  if (has_frozen(in.spec)) return first_weights(s, in, s.dtype, arena);
  ModelWeights weights = allocate_weights(in.spec, s.dtype, MemoryClass::weights, arena);
  for (const Tensor* weight : tensors(in.spec, weights)) weight->fill_zero();
  return weights;
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  TERN_CHECK(from.bytes() == to.bytes(), "train: {} bytes for a tensor of {}", from.bytes(), to.bytes());
  std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
}

void read_tensor(const Safetensors& file, const NamedTensor& want) {
  const TensorView found = file.get(want.name);
  std::vector<int64_t> shape(want.tensor.shape().sizes.begin(),
                             want.tensor.shape().sizes.begin() + want.tensor.shape().rank);
  if (!std::equal(shape.begin(), shape.end(), found.shape.begin(), found.shape.end()) ||
      found.dtype != want.tensor.dtype())
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is {} of shape {}, this run has {} of shape {}", file.path(),
                want.name, found.dtype_name, shape_text(found.shape), safetensors_name(want.tensor.dtype()),
                shape_text(shape));
  std::memcpy(want.tensor.data(), found.bytes.data(), found.bytes.size());
}

}  // namespace

TrainState fresh_state(const TrainSettings& s, const TrainInputs& in, Arena& arena) {
  TrainState state;
  if (s.dtype == DType::bf16) {
    // f32 first: the masters must not begin from rounded values. Lives only until they are copied, before gradients
    // exist.
    ModelWeights exact = first_weights(s, in, DType::f32, arena);
    state.weights = weights_beside_masters(s, in, arena);
    state.optimizer = make_optimizer_state(in.spec, state.weights, s.optimizer, arena);
    const std::vector<Tensor*> trained = trained_tensors(in.spec, exact);
    for (size_t i = 0; i < trained.size(); ++i) copy_bytes(*trained[i], state.optimizer.master[i]);
    size_t next = 0;
    for_each_fixed(in.spec, exact,
                   [&](const ParameterInfo&, Tensor& t) { copy_bytes(t, state.optimizer.fixed[next++]); });
    round_masters(in.spec, state.optimizer, state.weights);
  } else {
    state.weights = first_weights(s, in, s.dtype, arena);
    state.optimizer = make_optimizer_state(in.spec, state.weights, s.optimizer, arena);
  }
  state.gradients = allocate_gradients(in.spec, s.dtype, arena);
  return state;
}

TrainState load_state(const TrainSettings& s, const TrainInputs& in, Io& io, const std::string& checkpoint,
                      const Manifest& manifest, int rank, Arena& arena) {
  TrainState state;
  state.weights = weights_beside_masters(s, in, arena);
  state.optimizer = make_optimizer_state(in.spec, state.weights, s.optimizer, arena);
  const CheckpointData data(io, checkpoint, rank);
  const std::vector<NamedTensor> wanted = named_tensors(s.optimizer.rule, state.optimizer);
  if (data.tensors().size() != wanted.size())
    throw Error(ErrorKind::bad_file, "{}: {} tensors, this run has {}; another model or optimizer?",
                data.tensors().path(), data.tensors().size(), wanted.size());
  for (const NamedTensor& want : wanted) read_tensor(data.tensors(), want);
  round_masters(in.spec, state.optimizer, state.weights);
  state.gradients = allocate_gradients(in.spec, s.dtype, arena);
  state.step = manifest.step;
  state.samples = manifest.samples;
  return state;
}

std::vector<NamedTensor> named_tensors(UpdateRule rule, const OptimizerState& o) {
  std::vector<NamedTensor> list;
  const auto add = [&](std::string_view prefix, const std::vector<Tensor>& all) {
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].empty()) list.push_back({std::string(prefix) + "." + o.infos[i].name, all[i]});
  };
  add("model", o.master);
  for (size_t s = 0; s < o.slots.size(); ++s) add(row_of(rule).slots[s].name, o.slots[s]);
  for (size_t i = 0; i < o.fixed.size(); ++i) list.push_back({"model." + o.fixed_names[i], o.fixed[i]});
  return list;
}

}  // namespace tern
