#include "infer/load.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/system.h"
#include "kernels/cpu/matmul.h"
#include "model/adapter_files.h"
#include "model/gated_adapter.h"
#include "model/model_files.h"
#include "model/pack_weights.h"
#include "model/rope_table.h"
#include "model/row_lengths.h"
#include "model/thread_memory.h"
#include "model/whole_modules.h"
#include "spec/presets.h"
#include "spec/unit_cost.h"

namespace tern {
ModelDescription describe_model(const std::string& model, std::optional<DType> dtype, const ResolveOptions& options,
                                std::vector<std::string>* problems) {
  const auto guarded = [&](const std::function<void()>& read) {
    try {
      read();
    } catch (const Error& error) {
      if (!problems || error.kind() != ErrorKind::bad_file) throw;
      problems->emplace_back(error.what());
    }
  };
  ModelDescription d;
  refuse_preset(model);
  d.dir = resolve_model(model, options);
  d.notes = d.dir.notes;
  if (!d.dir.weights.empty())
    for (std::string& note : notes_on_weights(d.dir.path)) d.notes.push_back(std::move(note));
  d.config = read_model_config(d.dir);
  d.notes.insert(d.notes.end(), d.config.notes.begin(), d.config.notes.end());
  if (!d.dir.generation_config.empty()) {
    guarded([&] { d.generation = read_generation_config(d.dir.generation_config); });
    d.notes.insert(d.notes.end(), d.generation.notes.begin(), d.generation.notes.end());
  }
  d.spec = model_spec(d.config);
  if (d.dir.has_tokenizer()) guarded([&] { d.tokenizer = Tokenizer::load(d.dir.path); });
  if (d.tokenizer && d.tokenizer->vocab_size() > d.spec.vocab)
    d.notes.push_back(fmt::format("the tokenizer knows {} ids, the model {}: a text that needs the rest is refused",
                                  d.tokenizer->vocab_size(), d.spec.vocab));
  const DType saved = d.config.dtype.value_or(DType::f32);
  d.dtype = dtype.value_or(saved == DType::f16 ? DType::f32 : saved);
  return d;
}

ModelWeights load_for_inference(const ModelDescription& d, Arena& arena, WeightsIn in) {
  ModelWeights weights = d.dtype == DType::f64 ? load_weights(d.spec, d.dir.path, d.dtype, arena)
                                               : load_weights_to_infer(d.spec, d.dir.path, d.dtype, arena, in);
  load_adapter_of(d, weights, arena);
  return weights;
}

namespace {

void put_beside(ModelDescription& d, const std::string& name, const std::string& dir) {
  const std::string file = peft_config_file(dir);
  ModelSpec adapted = with_adapters(d.spec, read_peft_config(file), fmt::format("{}: target_modules", file));
  check_adapter(adapted, dir, d.dtype);
  d.beside.push_back({name, dir, std::move(adapted)});
}

// The branches of a gated adapter stand beside the model, its gates say how much each counts.
void put_gated_beside(ModelDescription& d, const std::string& dir) {
  const GatedAdapter gated = read_gated_adapter(dir);
  const int64_t width = std::get<EmbedSpec>(d.spec.units.front().spec).width;
  if (gated.gates.front().width != width)
    throw Error(ErrorKind::bad_file, "{}: its gates read {} numbers, this model's embeddings have {}", dir,
                gated.gates.front().width, width);
  for (const std::string& branch : gated.branches) {
    if (read_peft_config(peft_config_file(branch)).magnitude)
      throw Error(ErrorKind::bad_file, "{}: use_dora: a gated branch adds to the model, magnitudes multiply it",
                  branch);
    put_beside(d, branch, branch);
  }
}

}  // namespace

void take_adapter(ModelDescription& d, const std::string& dir) {
  if (is_gated_adapter(dir)) {
    put_gated_beside(d, dir);
    d.adapter = dir;
    return;
  }
  const std::string file = peft_config_file(dir);
  peft_weights_file(dir);  // that it is there, before anything large is read
  d.spec = with_adapters(std::move(d.spec), read_peft_config(file), fmt::format("{}: target_modules", file),
                         AdapterParts::all);
  d.adapter = dir;
}

void take_adapter_beside(ModelDescription& d, const std::string& name, const std::string& dir) {
  const int first = static_cast<int>(d.beside.size());
  const bool gated = is_gated_adapter(dir);
  gated ? put_gated_beside(d, dir) : put_beside(d, name, dir);
  d.offered.push_back({name, dir, first, gated});
}

void load_adapter_of(const ModelDescription& d, ModelWeights& weights, Arena& arena) {
  if (!d.adapter.empty() && d.beside.empty()) {
    const PeftConfig config = read_peft_config(peft_config_file(d.adapter));
    const std::vector<std::string> whole = whole_module_tensors(d.spec, config, d.adapter);
    if (!whole.empty()) {
      put_whole_modules(d.spec, config, d.adapter, d.dir.path, d.dtype, weights, arena);
      pack_weights(d.spec, weights, arena);
    }
    measure_rows(d.spec, d.dir.path, d.dtype, weights, arena);
    load_adapters(d.spec, d.adapter, d.dtype, weights, arena, whole);
    fix_row_factors(d.spec, d.dir.path, d.dtype, weights);
  }
  for (size_t i = 0; i < d.beside.size(); ++i)
    load_adapter_beside(d.beside[i].spec, d.dir.path, d.beside[i].dir, d.dtype, static_cast<int>(i), weights, arena);
}

int64_t whole_module_bytes(const ModelDescription& d) {
  if (d.adapter.empty() || !d.beside.empty()) return 0;
  return whole_module_bytes(d.spec, read_peft_config(peft_config_file(d.adapter)), d.dtype);
}

std::vector<int32_t> end_tokens(const ModelDescription& d) {
  std::vector<int32_t> ids;
  const auto& from = d.generation.eos_token_ids.empty() ? d.config.eos_token_ids : d.generation.eos_token_ids;
  for (const int64_t id : from) ids.push_back(static_cast<int32_t>(id));
  if (ids.empty() && d.tokenizer && d.tokenizer->eos()) ids.push_back(*d.tokenizer->eos());
  return ids;
}

int64_t model_context(const ModelDescription& d) {
  if (d.spec.rope.kind != RopeKind::dynamic) return d.spec.context;
  return static_cast<int64_t>(
      std::min(static_cast<double>(d.spec.context) * d.spec.rope.factor, static_cast<double>(INT32_MAX)));
}

}  // namespace tern
