#include "train/train_state.h"
#include "train/state_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "base/wide_type.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "model/not_finite.h"
#include "model/ops.h"
#include "model/row_lengths.h"
#include "model/taken_factors.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"
#include "spec/layout.h"
#include "tensor/bytes_of.h"
#include "train/async_state.h"
#include "train/checkpoint.h"
#include "train/outer_run.h"
#include "train/rank_place.h"
#include "train/state_runs.h"
#include "train/stored_run.h"
#include "train/tensor_state.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

bool begins_in_weights(const TrainSettings& s) {
  return s.adapter && s.adapter->begin.empty() && takes_factors(s.adapter->init);
}

void first_adapters(const TrainSettings& s, const ModelSpec& spec, DType dtype, ModelWeights& weights, Arena& arena) {
  if (s.adapter && !s.adapter->begin.empty()) return load_adapters(spec, s.adapter->begin, dtype, weights, arena);
  initialize_adapters(spec, weights, s.seed, s.adapter ? s.adapter->init : AdapterInit::kaiming);
}

// As a run begins: the model's own from its files or drawn, new adapters.
ModelWeights first_weights(const TrainSettings& s, const TrainInputs& in, DType dtype, Arena& arena,
                           const std::vector<bool>& elsewhere) {
  ModelWeights weights;
  if (s.from_scratch) {
    weights = allocate_weights(in.spec, dtype, MemoryClass::weights, arena, elsewhere);
    initialize_weights(in.spec, weights, s.seed);
  } else {
    weights = load_weights(in.spec, in.dir.path, dtype, arena, elsewhere);
  }
  if (!s.from_scratch) measure_rows(in.spec, in.dir.path, dtype, weights, arena);
  first_adapters(s, in.spec, dtype, weights, arena);
  if (begins_in_weights(s)) take_factors(in.spec, weights, s.adapter->init);
  return weights;
}

// The trained parameters as they begin, in f32, for masters of a model of less: adapters alone, or with the whole model.
ModelWeights first_masters(const TrainSettings& s, const TrainInputs& in, Arena& arena,
                           const std::vector<bool>& elsewhere) {
  if (!trains_adapters_alone(in.spec)) return first_weights(s, in, DType::f32, arena, elsewhere);
  ModelWeights adapters = empty_weights(in.spec);
  for_each_adapter(in.spec, adapters, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(DType::f32, info.shape, MemoryClass::weights);
  });
  measure_rows(in.spec, in.dir.path, s.dtype, adapters, arena);
  first_adapters(s, in.spec, DType::f32, adapters, arena);
  if (begins_in_weights(s)) read_taken_factors(in.spec, in.dir.path, s.dtype, s.adapter->init, adapters);
  return adapters;
}

bool has_frozen(const ModelSpec& spec) {
  return std::any_of(spec.units.begin(), spec.units.end(), [](const Unit& u) { return u.frozen; });
}

// Where masters have other values, and no checkpoint holds what is frozen.
ModelWeights weights_beside_masters(const TrainSettings& s, const TrainInputs& in, const ModelSpec& spec, Arena& arena,
                                    const Shares& shares, const std::vector<bool>& elsewhere) {
  if (has_frozen(spec)) return first_weights(s, in, s.dtype, arena, elsewhere);
  ModelWeights weights = allocate_own_weights(spec, s.dtype, arena, shares, elsewhere);
  for (const Tensor* weight : tensors(spec, weights))
    if (!weight->empty()) weight->fill_zero();
  return weights;
}

// Zero gradients, and what is kept of them where they are aggregated.
void begin_gradients(const TrainSettings& s, const ModelSpec& spec, Arena& arena, const std::vector<bool>& elsewhere,
                     TrainState& state) {
  if (s.perturbation) {
    state.gradients = empty_weights(spec);
    return;
  }
  const Shares& shares = state.optimizer.shares;
  std::vector<bool> without = elsewhere;
  // The gradient of a tied table's copy, where it is shared out: add_gradient_parts makes this rank's part.
  if (!without.empty() && without.front() && !shares.gradients_apart.empty() && shares.gradients_apart.back())
    without.back() = true;
  const std::vector<bool> apart =
      s.update_in_backward ? std::vector<bool>(spec.units.size(), true) : shares.gradients_apart;
  state.gradients = allocate_own_gradients(spec, s.dtype, arena, shares, apart, without);
  if (!s.robust) return;
  std::vector<Tensor> all;
  for (const Tensor* t : trained_tensors(spec, state.gradients)) all.push_back(*t);
  state.optimizer.robust = make_robust_state(*s.robust, all, shares.rank, shares.ranks, arena);
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  TERN_CHECK(from.bytes() == to.bytes(), "train: {} bytes for a tensor of {}", from.bytes(), to.bytes());
  std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
}

// This rank's own numbers alone are read, and straight to their place.
void read_tensor(const Safetensors& file, const StateTensor& want, const TensorPlace& at) {
  const TensorView found = file.get(want.name);
  std::vector<int64_t> shape(want.shape.sizes.begin(), want.shape.sizes.begin() + want.shape.rank);
  if (!std::equal(shape.begin(), shape.end(), found.shape.begin(), found.shape.end()) || found.dtype != want.dtype)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is {} of shape {}, this run has {} of shape {}", file.path(),
                want.name, found.dtype_name, shape_text(found.shape), safetensors_name(want.dtype), shape_text(shape));
  if (want.own.empty()) return;
  if (!want.parts.empty() && want.part_elements > local_count(want.parts[static_cast<size_t>(at.place)]))
    want.own.fill_zero();  // a table's rows beyond the vocabulary
  const int64_t size = size_of(want.dtype);
  for_each_kept_run(want, at, [&](const StateRun& run) {
    const auto bytes = static_cast<size_t>(run.count * size);
    std::memcpy(bytes_of(want.own).subspan(static_cast<size_t>(run.own * size), bytes).data(),
                found.bytes.subspan(static_cast<size_t>(run.whole * size), bytes).data(), bytes);
  });
}

// After each tensor its pages go back, so that a mapped file never has more than one tensor in memory.
void read_tensors(const Safetensors& file, const std::vector<StateTensor>& wanted, const TensorPlace& at) {
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < file.size(); ++i) numbers.emplace(file[i].name, i);
  for (const StateTensor& want : wanted) {
    read_tensor(file, want, at);
    file.dont_need(numbers.at(want.name));
  }
}

// Unit by unit, so that a rank never has more than one whole.
void begin_by_units(const TrainSettings& s, const TrainInputs& in, Arena& arena, Shares shares,
                    const std::vector<bool>& elsewhere, const TensorPlace& at, TrainState& state) {
  const ModelSpec part = at.ranks > 1 ? tensor_part(in.spec, at.ranks) : in.spec;
  state.weights = allocate_own_weights(part, s.dtype, arena, shares, elsewhere);
  state.optimizer = make_optimizer_state(part, state.weights, s.optimizer, arena, std::move(shares));
  const OptimizerState& o = state.optimizer;
  const bool masters = has_own_masters(s.optimizer, s.dtype);
  const DType exact = s.dtype == DType::bf16 ? DType::f32 : s.dtype;
  const std::vector<ParameterInfo> infos = trained_parameters(in.spec);
  const std::vector<Tensor*> kept = trained_tensors(part, state.weights);
  if (masters)
    for (const Tensor* weight : kept)
      if (!weight->empty()) weight->fill_zero();  // what others keep comes from them
  Arena beside;
  for (size_t unit = 0; unit < in.spec.units.size(); ++unit) {
    std::vector<bool> without(in.spec.units.size(), true);
    without[unit] = false;
    ModelWeights whole = first_weights(s, in, exact, beside, without);
    const std::vector<Tensor*> first = trained_tensors(in.spec, whole);
    for (size_t p = 0; p < first.size(); ++p) {
      const Tensor& to = masters ? o.master[p] : *kept[p];
      if (infos[p].unit != static_cast<int>(unit) || to.empty()) continue;
      const int64_t elements = o.forms[p].elements();
      const Holding held = at.ranks > 1 ? tensor_holding(in.spec, infos[p], at.place, at.ranks) : Holding{};
      if (held.empty()) {
        copy_bytes(to.count() == elements ? *first[p] : own_part(o.shares, p, elements, *first[p]), to);
      } else if (to.count() == elements) {
        take_part(held, *first[p], to);
      } else {
        const Tensor all = beside.allocate(exact, {elements}, MemoryClass::weights);
        take_part(held, *first[p], all);
        copy_bytes(own_part(o.shares, p, elements, all), to);
      }
    }
    size_t next = 0;
    for_each_fixed(in.spec, whole, [&](const ParameterInfo&, Tensor& t) { copy_bytes(t, o.fixed[next++]); });
  }
  round_masters(part, o, state.weights);
  state.beginning_bytes = arena.current_total() + beside.peak_total();
}

// Weights in memory, states in a file. Where masters have values of their own, or weights lie in the file too, unit by unit, so that one
// unit's are in memory.
void begin_stored(const TrainSettings& s, const TrainInputs& in, Arena& arena, TrainState& state) {
  const std::vector<bool> files = units_in_file(in.spec, s);
  const bool by_units = has_own_masters(s.optimizer, s.dtype) || !files.empty();
  state.weights = by_units ? allocate_weights(in.spec, s.dtype, MemoryClass::weights, arena, files)
                           : first_weights(s, in, s.dtype, arena, {});
  state.optimizer = stored_optimizer_state(in.spec, state.weights, s.optimizer);
  state.stored = open_stored_states(in.spec, s, arena);
  if (!by_units) return;
  const std::vector<Tensor*> kept = trained_tensors(in.spec, state.weights);
  Arena beside;
  for (size_t unit = 0; unit < in.spec.units.size(); ++unit) {
    std::vector<bool> without(in.spec.units.size(), true);
    without[unit] = false;
    ModelWeights whole = first_weights(s, in, wide_type(s.dtype), beside, without);
    const std::vector<Tensor*> first = trained_tensors(in.spec, whole);
    for (size_t p = 0; p < first.size(); ++p) {
      if (state.optimizer.infos[p].unit != static_cast<int>(unit)) continue;
      if (state.stored->field(p, kMasterField)) state.stored->write(p, kMasterField, bytes_of(*first[p]));
      if (!kept[p]->empty()) round_master(*first[p], *kept[p]);
    }
    size_t next = 0;
    for_each_fixed(in.spec, whole,
                   [&](const ParameterInfo&, Tensor& t) { copy_bytes(t, state.optimizer.fixed[next++]); });
  }
  state.beginning_bytes = arena.current_total() + beside.peak_total();
}

}  // namespace

bool trains_adapters_alone(const ModelSpec& spec) {
  return std::all_of(spec.units.begin(), spec.units.end(), [](const Unit& u) { return u.frozen; });
}

bool begins_by_units(const ModelSpec& spec, const Shares& shares, const std::vector<bool>& elsewhere,
                     const TensorPlace& at) {
  return at.ranks > 1 || shares.expert_ranks > 1 || shares.any_weights_apart() ||
         (!elsewhere.empty() && !has_frozen(spec));
}

TrainState fresh_state(const TrainSettings& s, const TrainInputs& in, Arena& arena, Shares shares,
                       const std::vector<bool>& elsewhere, const TensorPlace& at) {
  TrainState state;
  if (!s.from_scratch) require_finite(in.dir.weights);
  if (s.states_on_disk) {
    begin_stored(s, in, arena, state);
  } else if (begins_by_units(in.spec, shares, elsewhere, at)) {
    begin_by_units(s, in, arena, std::move(shares), elsewhere, at, state);
  } else if (s.dtype == DType::bf16) {
    // f32 first: the masters must not begin from rounded values. Lives only until they are copied, before gradients
    // exist.
    Arena beside;
    ModelWeights exact = first_masters(s, in, beside, elsewhere);
    state.weights = weights_beside_masters(s, in, in.spec, arena, shares, elsewhere);
    state.optimizer = make_optimizer_state(in.spec, state.weights, s.optimizer, arena, std::move(shares));
    const OptimizerState& o = state.optimizer;
    const std::vector<Tensor*> trained = trained_tensors(in.spec, exact);
    for (size_t i = 0; i < trained.size(); ++i)
      if (!o.master[i].empty()) copy_bytes(own_part(o.shares, i, o.forms[i].elements(), *trained[i]), o.master[i]);
    size_t next = 0;
    if (!trains_adapters_alone(in.spec))  // else they are read already
      for_each_fixed(in.spec, exact,
                     [&](const ParameterInfo&, Tensor& t) { copy_bytes(t, state.optimizer.fixed[next++]); });
    round_masters(in.spec, state.optimizer, state.weights);
    state.beginning_bytes = std::max(beside.peak_total(), arena.current_total() + beside.current_total());
  } else {
    state.weights = first_weights(s, in, s.dtype, arena, elsewhere);
    state.optimizer = make_optimizer_state(in.spec, state.weights, s.optimizer, arena, std::move(shares));
  }
  begin_gradients(s, part_of_rank(in.spec, at), arena, elsewhere, state);
  if (s.outer) state.outer = outer_state_of(in.spec, s, state.optimizer, arena);
  return state;
}

TrainState load_state(const TrainSettings& s, const TrainInputs& in, Io& io, const std::string& checkpoint,
                      const Manifest& manifest, Arena& arena, Shares shares, const std::vector<bool>& elsewhere,
                      const TensorPlace& at, std::vector<NamedTensor> beside) {
  TrainState state;
  state.beside = std::move(beside);
  const ModelSpec spec = part_of_rank(in.spec, at);
  if (!s.from_scratch && has_frozen(in.spec)) require_finite(in.dir.weights);
  const std::vector<bool> files = units_in_file(spec, s);
  state.weights = weights_beside_masters(s, in, spec, arena, shares, files.empty() ? elsewhere : files);
  if (s.states_on_disk) {
    state.optimizer = stored_optimizer_state(spec, state.weights, s.optimizer);
    state.stored = open_stored_states(spec, s, arena);
  } else {
    state.optimizer = make_optimizer_state(spec, state.weights, s.optimizer, arena, std::move(shares));
  }
  begin_gradients(s, spec, arena, elsewhere, state);
  if (s.outer) state.outer = outer_state_of(spec, s, state.optimizer, arena);
  const CheckpointData data(io, checkpoint, 0);  // all of the state is in rank 0's file
  const std::vector<StateTensor> wanted = in_parts(state_tensors(s, state), in.spec, at);
  const size_t all = wanted.size() + (s.async ? static_cast<size_t>(num_async_tensors(s.async->rule.workers)) : 0);
  if (data.tensors().size() != all)
    throw Error(ErrorKind::bad_file, "{}: {} tensors, this run has {}; another model or optimizer?",
                data.tensors().path(), data.tensors().size(), all);
  read_tensors(data.tensors(), wanted, at);
  if (state.stored) read_stored(data.tensors(), spec, s, state);
  round_masters(spec, state.optimizer, state.weights);
  state.step = manifest.step;
  state.samples = manifest.samples;
  return state;
}

}  // namespace tern
