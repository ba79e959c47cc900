#pragma once
// Reads a model from its directory for inference: first its description, so that it can be judged before anything large is allocated, then
// its weights.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/hf/config.h"
#include "formats/hf/generation_config.h"
#include "formats/model_dir.h"
#include "formats/tokenizer/tokenizer.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace tern {

/// One of several adapters beside a model. A sequence runs with the adapter that its request names.
struct NamedAdapter {
  std::string name, dir;  // dir: a PEFT directory
  ModelSpec spec;         // of the model with this adapter
};

/// What a request may name: one adapter beside the model, or a gated adapter (model/gated_adapter.h), which is several of them.
struct OfferedAdapter {
  std::string name, dir;
  int first = 0;       // the index of its first adapter in ModelDescription::beside
  bool gated = false;  // true: it has as many adapters as gates; false: it has one
};

/// Everything about a model but its weights.
struct ModelDescription {
  ModelDir dir;
  HfConfig config;
  GenerationConfig generation;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;  // absent: the directory has none
  DType dtype = DType::f32;            // to compute in
  // The directory of the one adapter that all sequences have: a PEFT directory whose branches `spec` has, or a gated adapter whose branches
  // are in `beside`. Empty: none.
  std::string adapter;
  std::vector<NamedAdapter> beside;     // adapters beside the model; `spec` is without them
  std::vector<OfferedAdapter> offered;  // a request chooses one by its index here (Request::adapter)
  std::vector<std::string> notes;       // what a person should know, one sentence each
};
/// Reads everything but the weights. Without a dtype the model computes in the type that it was saved in, but in f32 if that is f16.
/// `problems`: if given, faults of generation_config.json or the tokenizer are added there, and the model is described without that part.
/// Errors: bad_file, usage.
ModelDescription describe_model(const std::string& model, std::optional<DType> dtype, const ResolveOptions& = {},
                                std::vector<std::string>* problems = nullptr);

/// Gives the model the adapter of a PEFT directory. Errors: bad_file naming file and key or module.
void take_adapter(ModelDescription&, const std::string& dir);

/// Adds the adapter of a directory, or all adapters of a gated one, to those beside the model. Errors: as above.
void take_adapter_beside(ModelDescription&, const std::string& name, const std::string& dir);

/// Loads the weights in the exact kernels' layout (f64: plain), with the adapters. Errors: those of load_weights and load_adapters; does_not_fit.
ModelWeights load_for_inference(const ModelDescription&, Arena&, WeightsIn = WeightsIn::mapped_file);

/// Loads only the adapters, into weights that other code has loaded. DoRA's magnitudes become factors (model/row_lengths.h).
void load_adapter_of(const ModelDescription&, ModelWeights&, Arena&);

/// An upper bound of the bytes that the adapter's whole modules (model/whole_modules.h) take beside the model. Errors: those of take_adapter.
int64_t whole_module_bytes(const ModelDescription&);

/// The ids that end a sample: those in generation_config.json, else those in config.json, else the tokenizer's.
std::vector<int32_t> end_tokens(const ModelDescription&);
/// The most tokens of a sequence: the number of learned positions, or max_position_embeddings of rotary models, times the factor of dynamic
/// scaling.
int64_t model_context(const ModelDescription&);

}  // namespace tern
