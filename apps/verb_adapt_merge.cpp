// tern adapt merge MODEL ADAPTER: the adapter becomes part of the weights, in a model directory of its own.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/adapter_base.h"
#include "apps/common.h"
#include "apps/gguf_output.h"
#include "apps/hf_output.h"
#include "apps/model_engine.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/publish.h"
#include "base/units.h"
#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/merge_adapters.h"
#include "model/merge_offsets.h"
#include "model/model_files.h"
#include "model/row_lengths.h"
#include "model/whole_modules.h"

namespace tern {
namespace {

// --dtype, or the type that the model is kept in.
DType stored_type(const Options& options, const ModelDescription& model) {
  if (options.has("dtype")) return dtype_from_name(options.text("dtype"));
  return model.config.dtype.value_or(DType::f32);
}

void require_room_to_merge(const Options& options, const ModelDescription& model) {
  const MemoryBudget budget = memory_budget(options);
  const int64_t needed = num_parameters(model.spec) * size_of(model.dtype);
  if (const std::string more = memory_remedy(budget, needed); needed > budget.bytes)
    throw Error(ErrorKind::does_not_fit, "merge: the weights need {}, there are {} ({}); use {}", format_bytes(needed),
                format_bytes(budget.bytes), budget.source,
                more.empty() ? "a machine with more memory" : more + " or more");
}

// Everything of a directory but its weights, as it is.
void copy_beside(const std::string& from, const std::vector<std::string>& weights, const std::string& to, Io& io) {
  for (const std::string& name : io.list(from)) {
    const auto info = io.stat(join_path(from, name));
    if (!info || info->is_special || std::ranges::count(weights, name) > 0) continue;
    if (!info->is_directory) {
      write_file_atomically(io, join_path(to, name), io.read(join_path(from, name)));
    } else if (name == "additional_chat_templates") {
      make_dirs(io, join_path(to, name));
      copy_beside(join_path(from, name), {}, join_path(to, name), io);
    }
  }
}

// The share of the adapter that rounding took, where it is large, with what keeps more of it.
void warn_of_rounding(const MergeError& error, std::string_view remedy) {
  constexpr double kSmall = 0.05;
  if (error.relative() > kSmall)
    log_warn("rounding took {:.3g} % of what the adapter adds{}{}", 100 * error.relative(), remedy.empty() ? "" : "; ",
             remedy);
}

constexpr const char* kNotMergeable = "merged they would be the same for every prompt";

// --offsets: the base stays as it is coded.
int merge_offsets(const Options& options, ModelDescription model, const std::string& adapter, const std::string& out) {
  for (const char* name : {"dtype", "shard-size"})
    if (options.given(name))
      throw Error(ErrorKind::usage, "--{}: with --offsets the files stay as they are coded; leave it out", name);
  model.dir.is_gguf() ? check_gguf_output(out) : check_hf_output(out);
  take_adapter(model, adapter);
  refuse_gated_adapter(model, kNotMergeable);
  warn_of_other_base(model.dir.name, adapter);
  if (const auto whole = whole_modules(model.spec, read_peft_config(peft_config_file(adapter)), adapter);
      !whole.empty())
    throw Error(ErrorKind::usage, "{}: it changes {} as a whole, which offsets cannot; merge without --offsets",
                adapter, whole.front().info.fragments.front().name);
  if (has_magnitudes(model.spec))
    throw Error(ErrorKind::usage,
                "{}: its magnitudes (DoRA) multiply rows, which offsets cannot; merge without --offsets, or adapt with "
                "--method qalora or qablora",
                adapter);
  Arena arena;
  ModelWeights branches = empty_weights(model.spec);
  load_adapters(model.spec, adapter, DType::f32, branches, arena);
  OutputDirectory output(real_io(), out);
  const std::string made = output.temporary();
  OffsetMerge merged;
  if (model.dir.is_gguf()) {
    merged = merge_into_offsets(model.spec, branches, model.dir.path, join_path(made, file_name(out)), real_io());
    output.publish_file(file_name(out));
  } else {
    merged = merge_into_offsets(model.spec, branches, model.dir.path, made, real_io());
    copy_beside(model.dir.path, real_io().list(made), made, real_io());
    output.publish();
  }
  warn_of_rounding(merged.error, model.dir.is_gguf() ? "offsets in a GGUF file are f16; those of a directory that tern "
                                                       "quantize --type u4 writes are f32 and keep it"
                                                     : "");
  if (options.flag("json")) {
    print_json({{"model", options.positional("MODEL")},
                {"adapter", adapter},
                {"output", out},
                {"matrices", merged.error.matrices},
                {"offsets", merged.offsets},
                {"relative_error", merged.error.relative()},
                {"largest_rounding", merged.largest}});
    return 0;
  }
  print_out(fmt::format(
      "{}  {} offsets moved in {}, no code changed; rounding took {:.3g} % of what the adapter adds, and of "
      "each weight at most {:.2g}\n",
      out, format_with_commas(merged.offsets),
      merged.error.matrices == 1 ? "1 matrix" : fmt::format("{} matrices", merged.error.matrices),
      100 * merged.error.relative(), merged.largest));
  return 0;
}

}  // namespace

int run_adapt_merge(const Options& options) {
  apply_threads(options);
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the directory to write");
  const std::string out = options.text("output"), adapter = options.positional("ADAPTER");
  ModelDescription model = describe_model(options.positional("MODEL"), std::nullopt);
  refuse_encoder(model, "adapt merge");
  tell_notes(model);
  if (options.flag("offsets")) return merge_offsets(options, std::move(model), adapter, out);
  const DType stored = stored_type(options, model);
  model.config.coded = {};                                       // the merged weights are numbers
  model.config.predicting_layers = 0;                            // they are not read
  model.dtype = stored == DType::f64 ? DType::f64 : DType::f32;  // to add in; what is written is rounded from it
  check_hf_output(out);
  take_adapter(model, adapter);
  refuse_gated_adapter(model, kNotMergeable);
  warn_of_other_base(model.dir.name, adapter);
  require_room_to_merge(options, model);
  Arena arena;
  ModelWeights weights = load_weights(model.spec, model.dir.path, model.dtype, arena);
  const PeftConfig config = read_peft_config(peft_config_file(adapter));
  put_whole_modules(model.spec, config, adapter, model.dir.path, model.dtype, weights, arena);
  measure_rows(model.spec, weights, weights, arena);
  load_adapters(model.spec, adapter, model.dtype, weights, arena, whole_module_tensors(model.spec, config, adapter));
  if (untie_changed_head(config, model.spec)) model.config.tie_word_embeddings = false;
  const MergeError error = merge_adapters(model.spec, weights, stored);
  OutputDirectory output(real_io(), out);
  const std::string made = output.temporary();
  save_model(model.spec, model.config, weights, stored, made, real_io(), options.integer("shard-size"));
  write_companions(model, read_chat_templates(model.dir.path), made, real_io());
  const int64_t bytes = bytes_in(real_io(), made);
  output.publish();
  warn_of_rounding(error, size_of(stored) < size_of(DType::f32) ? "--dtype f32 keeps it" : "");
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
