#pragma once
// A model from its directory, ready to infer: described first, so that it can be judged before anything large is
// allocated.

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

/// One of several adapters that stand beside a model, each for the requests that name it.
struct NamedAdapter {
  std::string name, dir;  // dir: of PEFT's
  ModelSpec spec;         // of the model with this adapter
};

/// What a request may name: one adapter beside the model, or gated ones (model/gated_adapter.h) that stand there together.
struct OfferedAdapter {
  std::string name, dir;
  int first = 0;       // in ModelDescription::beside
  bool gated = false;  // then as many as its gates
};

/// Everything about a model but its weights.
struct ModelDescription {
  ModelDir dir;
  HfConfig config;
  GenerationConfig generation;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;  // absent: the directory has none
  DType dtype = DType::f32;            // to compute in
  std::string adapter;                 // PEFT directory whose branches `spec` has, or gates of `beside`; empty: none
  std::vector<NamedAdapter>
      beside;  // instead of `adapter`: adapters that stand beside the model; `spec` is without them
  std::vector<OfferedAdapter> offered;  // of these a request chooses one by its index here (Request::adapter)
  std::vector<std::string> notes;       // what a person should know, one sentence each
};
/// dtype absent: the one the model was saved in, f16 as f32. Errors: bad_file, usage.
/// With `problems`: what is wrong with generation_config.json or the tokenizer goes there, and that part stays out.
ModelDescription describe_model(const std::string& model, std::optional<DType> dtype, const ResolveOptions& = {},
                                std::vector<std::string>* problems = nullptr);

/// Gives the model the adapter of a PEFT directory. Errors: bad_file naming file and key or module.
void take_adapter(ModelDescription&, const std::string& dir);

/// Adds the directory's adapter, or all its gated ones, behind those already beside the model. Errors: as above.
void take_adapter_beside(ModelDescription&, const std::string& name, const std::string& dir);

/// Weights in the exact kernels' layout (f64: plain), with the adapters.
ModelWeights load_for_inference(const ModelDescription&, Arena&, WeightsIn = WeightsIn::mapped_file);

/// Loads only the adapters, into weights that were loaded otherwise; magnitudes become factors (model/row_lengths.h).
void load_adapter_of(const ModelDescription&, ModelWeights&, Arena&);

/// Upper bound of what the adapter's whole modules (model/whole_modules.h) take beside the model. Errors: as take_adapter.
int64_t whole_module_bytes(const ModelDescription&);

/// Ids that end a sample: generation_config.json's, else config.json's, else the tokenizer's.
std::vector<int32_t> end_tokens(const ModelDescription&);
/// The longest sequence the model allows: the number of learned positions, or what rotary models state as
/// max_position_embeddings, with dynamic scaling times its factor.
int64_t model_context(const ModelDescription&);

}  // namespace tern
