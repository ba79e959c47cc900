// tern adapt merge MODEL ADAPTER: the adapter becomes part of the weights, in a model directory of its own.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/hf_output.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/publish.h"
#include "base/units.h"
#include "formats/chat/template.h"
#include "infer/load.h"
#include "model/merge_adapters.h"
#include "model/model_files.h"

namespace tern {
namespace {

// --dtype, or the type that the model is kept in.
DType stored_type(const Options& options, const ModelDescription& model) {
  if (options.has("dtype")) return dtype_from_name(options.text("dtype"));
  return model.config.dtype.value_or(DType::f32);
}

void require_room(const Options& options, const ModelDescription& model) {
  const MemoryBudget budget = memory_budget(options);
  const int64_t needed = num_parameters(model.spec) * size_of(model.dtype);
  if (needed > budget.bytes)
    throw Error(ErrorKind::does_not_fit,
                "merge: the weights need {}, there are {} ({}); use a machine with more memory", format_bytes(needed),
                format_bytes(budget.bytes), budget.source);
}

}  // namespace

int run_adapt_merge(const Options& options) {
  apply_threads(options);
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the directory to write");
  const std::string out = options.text("output"), adapter = options.positional("ADAPTER");
  ModelDescription model = describe_model(options.positional("MODEL"), std::nullopt);
  refuse_encoder(model, "adapt merge");
  tell_notes(model);
  const DType stored = stored_type(options, model);
  model.config.coded = {};                                       // the merged weights are numbers
  model.config.predicting_layers = 0;                            // they are not read
  model.dtype = stored == DType::f64 ? DType::f64 : DType::f32;  // to add in; what is written is rounded from it
  check_hf_output(out);
  take_adapter(model, adapter);
  require_room(options, model);
  Arena arena;
  ModelWeights weights = load_weights(model.spec, model.dir.path, model.dtype, arena);
  load_adapter_of(model, weights, arena);
  const MergeError error = merge_adapters(model.spec, weights, stored);
  OutputDirectory output(real_io(), out);
  const std::string made = output.temporary();
  save_model(model.spec, model.config, weights, stored, made, real_io(), options.integer("shard-size"));
  write_companions(model, read_chat_templates(model.dir.path), made, real_io());
  const int64_t bytes = bytes_in(real_io(), made);
  output.publish();
  if (options.flag("json")) {
    print_json({{"model", options.positional("MODEL")},
                {"adapter", adapter},
                {"output", out},
                {"dtype", name_of(stored)},
                {"bytes", bytes},
                {"matrices", error.matrices},
                {"relative_error", error.relative()}});
    return 0;
  }
  print_out(fmt::format("{}  {} of {}; {} merged; rounding took {:.3g} % of what the adapter adds\n", out,
                        format_bytes(bytes), name_of(stored),
                        error.matrices == 1 ? "1 matrix" : fmt::format("{} matrices", error.matrices),
                        100 * error.relative()));
  return 0;
}

}  // namespace tern
