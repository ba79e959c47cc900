#include "train/stored_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/system.h"
#include "model/visit_weights.h"
#include "train/state_tensors.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

std::vector<ParameterForm> forms_of(const ModelSpec& spec) {
  std::vector<ParameterForm> forms;
  for (const ParameterInfo& info : trained_parameters(spec)) forms.push_back(form_of(spec, info));
  return forms;
}

// The name that a checkpoint has for a field (state_tensors).
std::string name_in_checkpoint(const UpdateConfig& config, const StoredField& f, const ParameterInfo& info) {
  const std::string_view kind =
      f.slot == kMasterField ? "model" : row_of(config.rule).slots[static_cast<size_t>(f.slot)].name;
  return fmt::format("{}.{}", kind, info.name);
}

struct StoredPlace {
  size_t parameter;
  int slot;
};
using StoredPlaces = std::vector<std::pair<std::string, StoredPlace>>;
StoredPlaces places_of(const TrainSettings& s, const TrainState& state) {
  StoredPlaces list;
  const std::vector<StoredParameter>& parameters = state.stored->layout().parameters;
  for (size_t p = 0; p < parameters.size(); ++p)
    for (const StoredField& f : parameters[p].fields)
      list.emplace_back(name_in_checkpoint(s.optimizer, f, state.optimizer.infos[p]), StoredPlace{p, f.slot});
  return list;
}

}  // namespace

std::string why_not_stored(const TrainSettings& s) {
  if (s.adapter) return "an adapter's states are small; they lie in memory";
  if (s.async) return "workers of --async have no such states";
  if (s.robust || s.outer)
    return fmt::format("--{} keeps states of its own in memory", s.robust ? "aggregator" : "outer");
  if (s.ranks > 1)
    return fmt::format("--ranks {}: several ranks keep theirs in memory; share them out with --zero 1", s.ranks);
  if (s.perturbation && s.dtype == DType::bf16)
    return "weights come from the file in the type that is computed in; say --dtype f32";
  if (s.perturbation && row_of(s.optimizer.rule).temporary)
    return fmt::format("--optimizer {} needs memory of its own within a pass; choose another rule",
                       name_of(s.optimizer.rule));
  if (const std::string why = why_not_stored(s.optimizer); !why.empty())
    return fmt::format("--optimizer {} {}; choose another rule", name_of(s.optimizer.rule), why);
  return "";
}

void check_stored_states(const TrainSettings& s) {
  if (!s.states_directory.empty() && !s.states_on_disk)
    throw Error(ErrorKind::usage, "--states-dir {}: states lie in memory; say --states disk", s.states_directory);
  if (!s.states_on_disk) return;
  if (const std::string why = why_not_stored(s); !why.empty()) throw Error(ErrorKind::usage, "--states disk: {}", why);
  if (!s.states_directory.empty()) require_on_disk(s.states_directory, "--states-dir");
}

StoredShape stored_shape(const ModelSpec& spec, const TrainSettings& s) {
  const std::vector<ParameterForm> forms = forms_of(spec);
  std::vector<bool> weights_too;
  if (const std::vector<bool> units = units_in_file(spec, s); !units.empty())
    for (const ParameterInfo& info : trained_parameters(spec))
      weights_too.push_back(units[static_cast<size_t>(info.unit)]);
  StoredShape shape{.layout = {}, .passage = stored_passage(forms, s.optimizer, s.dtype, weights_too)};
  shape.layout = stored_layout(forms, s.optimizer, s.dtype, shape.passage.subgroup, weights_too);
  return shape;
}

int64_t stored_memory_bytes(const ModelSpec& spec, const TrainSettings& s) {
  const StoredShape shape = stored_shape(spec, s);
  return passage_bytes(shape.layout, shape.passage);
}

const std::string& states_directory(const TrainSettings& s) {
  return s.states_directory.empty() ? s.output : s.states_directory;
}

std::unique_ptr<StoredStates> open_stored_states(const ModelSpec& spec, const TrainSettings& s, Arena& arena) {
  StoredShape shape = stored_shape(spec, s);
  OpenedScratch file = open_scratch(states_directory(s), shape.layout.file_bytes);
  return std::make_unique<StoredStates>(std::move(file), std::move(shape.layout), shape.passage, arena);
}

std::vector<size_t> update_order(const Program& program, const std::vector<ParameterInfo>& infos) {
  std::vector<size_t> order;
  for (const Instruction& i : program.instructions)
    if (i.op == Opcode::update)
      for (size_t p = 0; p < infos.size(); ++p)
        if (infos[p].unit == i.unit) order.push_back(p);
  return order;
}

std::vector<TensorToWrite> stored_tensors(const TrainSettings& s, const TrainState& state) {
  const StoredPlaces places = places_of(s, state);
  StoredStates* const stored = state.stored.get();
  std::vector<TensorToWrite> list;
  for (const StateTensor& t : state_tensors(s, state)) {
    TensorToWrite w{.name = t.name, .dtype = t.dtype, .shape = {}, .bytes = {}, .produce = {}};
    w.shape.assign(t.shape.sizes.begin(), t.shape.sizes.begin() + t.shape.rank);
    const auto there = std::ranges::find(places, t.name, &StoredPlaces::value_type::first);
    if (there != places.end())
      w.produce = [stored, at = there->second](const ByteSink& sink) { stored->read(at.parameter, at.slot, sink); };
    else
      w.bytes = {static_cast<const std::byte*>(t.own.data()), static_cast<size_t>(t.own.bytes())};
    list.push_back(std::move(w));
  }
  return list;
}

void read_stored(const Safetensors& file, const ModelSpec& spec, const TrainSettings& s, TrainState& state) {
  const std::vector<Tensor*> weights = trained_tensors(spec, state.weights);
  for (const auto& [name, at] : places_of(s, state)) {
    const TensorView found = file.get(name);
    state.stored->write(at.parameter, at.slot, found.bytes);
    if (at.slot != kMasterField || weights[at.parameter]->empty()) continue;
    void* const bytes = const_cast<std::byte*>(found.bytes.data());  // read alone
    round_master(Tensor::borrow(*found.dtype, weights[at.parameter]->shape(), bytes), *weights[at.parameter]);
  }
}

}  // namespace tern
