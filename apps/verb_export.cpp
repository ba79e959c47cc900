// tern export MODEL: the model in another form, read back and compared before it is called done.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/gguf_output.h"
#include "apps/hf_output.h"
#include "apps/verbs.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "formats/gguf/model.h"
#include "formats/gguf/write.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/check_weights.h"
#include "model/compare_weights.h"
#include "model/model_files.h"
#include "model/ops.h"
#include "model/read_parameter.h"
#include "model/save_gguf.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// What is asked for.
struct ExportOrder {
  std::string out, type;  // type: --dtype, or what stands for it
  bool gguf = false;      // else a directory
};

struct WrittenBytes {
  int64_t bytes = 0, as_f16 = 0;
};

// --dtype, or the one the model is kept in; what was quantized becomes f16 or f32 as config says.
std::string target_type(const Options& options, const ModelDescription& model, bool gguf) {
  if (!options.has("dtype")) {
    const DType saved = model.config.dtype.value_or(DType::f32);
    return saved == DType::f64 && gguf ? "f32" : std::string(name_of(saved));
  }
  const std::string& type = options.text("dtype");
  if (type == "q8_0" && !gguf)
    throw Error(ErrorKind::usage, "--dtype q8_0 is a type of --format gguf; --format hf takes f32, f16 or bf16");
  return type;
}

bool holds_everything(const std::string& type, DType held) {
  return type == name_of(held) || (type == "f32" && held == DType::bf16);
}

// What f16 cannot hold, and what no type should: before anything is written.
void check_range(const ModelDescription& model, const ModelWeights& weights, const std::string& type) {
  constexpr double kLargestHalf = 65504;
  double largest = 0;
  bool finite = true;
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  for_each_parameter(model.spec, handles, [&](const ParameterInfo&, Tensor& t) {
    ops::by_dtype(t.dtype(), [&]<class T>() {
      for (const T x : t.span<T>()) {
        double size = 0;
        if constexpr (std::is_same_v<T, double>)
          size = std::abs(x);
        else
          size = std::abs(static_cast<double>(to_float(x)));
        finite = finite && std::isfinite(size);
        largest = std::max(largest, size);
      }
    });
  });
  if (!finite) {
    require_finite_weights(model);
    throw Error(ErrorKind::bad_file, "{}: weights that are NaN or infinite; take an earlier state of the model",
                model.dir.path);
  }
  if (type == "f16" && largest > kLargestHalf)
    throw Error(ErrorKind::usage,
                "--dtype f16: the weights reach {:.3g}, which it cannot hold (up to 65,504); use bf16 or f32", largest);
}

// What one of the two forms has no place for.
void tell_losses(const ModelDescription& model, bool gguf) {
  if (gguf && !model.dir.is_gguf())
    log_info("a GGUF file has no place for initializer_range{}: left out",
             model.dir.generation_config.empty() ? "" : " and generation_config.json");
  if (!gguf && model.dir.is_gguf())
    log_info(
        "the GGUF file says nothing of initializer_range and generation_config.json: the first is written as {}, "
        "the second is not written",
        model.spec.initializer_range);
}

// Into the directory `out`.
WrittenBytes write_hf(const Options& options, const ModelDescription& model, const ChatTemplates& templates,
                      const ModelWeights& weights, const std::string& type, const std::string& out) {
  Io& io = real_io();
  save_model(model.spec, model.config, weights, dtype_from_name(type), out, io, options.integer("shard-size"));
  write_companions(model, templates, out, io);
  WrittenBytes w;
  for (const std::string& name : io.list(out))
    if (const auto info = io.stat(join_path(out, name)); info && !info->is_directory) w.bytes += info->size_bytes;
  return w;
}

WrittenBytes write_gguf_file(const ModelDescription& model, GgufMetadata metadata, const ModelWeights& weights,
                             const std::string& type, const std::string& out) {
  const WeightType as = weight_type_of_choice(type);
  const GgufSaved saved = save_gguf(model.spec, model.config, parameters_of(model.spec, weights),
                                    {.matrices = as, .tables = as}, std::move(metadata), out, real_io());
  return {.bytes = saved.file_bytes, .as_f16 = saved.as_f16};
}

std::string difference_words(const WeightsDifference& d, const std::string& type) {
  if (d.num_different == 0) return fmt::format("all {} parameters bit-equal", format_with_commas(d.num_elements));
  return fmt::format("{} of {} parameters rounded to {}, the largest difference {:.3g} of {:.3g}",
                     format_with_commas(d.num_different), format_with_commas(d.num_elements), type, d.largest,
                     d.largest_value);
}

ModelDescription model_to_export(const Options& options) {
  ModelDescription model = describe_model(options.positional("MODEL"), std::nullopt);
  if (model.config.coded) model.dtype = DType::f32;  // decoded numbers are
  if (!model.spec.predicts)
    throw Error(
        ErrorKind::usage,
        "export: {} is an encoder ({}), which tern does not write yet, neither as GGUF nor in another type; its "
        "directory can be used as it is",
        model.dir.path, model.spec.family);
  tell_notes(model);
  return model;
}

void leave_out_predicting_layers(ModelDescription& model) {
  if (model.config.predicting_layers == 0) return;
  const WeightsCheck check = check_weights(model.spec, model.dir.weights);
  log_info("layers that predict further tokens are left out ({}), and the export says that it has none",
           counted(check.num_passed_over, "tensor"));
  model.config.predicting_layers = 0;
}

// The weights twice: as read, and as read back.
void require_room_to_export(const Options& options, const ModelDescription& model) {
  const MemoryBudget budget = memory_budget(options);
  const int64_t needed = 2 * num_parameters(model.spec) * size_of(model.dtype);
  if (const std::string more = memory_remedy(budget, needed); needed > budget.bytes)
    throw Error(ErrorKind::does_not_fit, "export: the weights and what is read back need {}, there are {} ({}); use {}",
                format_bytes(needed), format_bytes(budget.bytes), budget.source,
                more.empty() ? "a machine with more memory" : more + " or more");
}

// What lies at `made` against what it was made from. Errors: usage: a type that cannot hold the weights.
WeightsDifference compare_with_written(const ModelDescription& model, const ModelWeights& weights,
                                       const WrittenBytes& written, const ExportOrder& order, const std::string& made,
                                       Arena& arena) {
  const ModelDescription back = describe_model(made, model.dtype);
  const ModelWeights again = load_weights(back.spec, made, model.dtype, arena);
  const WeightsDifference difference = compare_weights(model.spec, weights, again);
  const bool lossless = holds_everything(order.type, model.dtype) && written.as_f16 == 0;
  if (back.spec.units != model.spec.units || (lossless && difference.num_different > 0))
    throw Bug("export: {} does not read back as the model it was made from", order.out);
  if (std::isinf(difference.largest))
    throw Error(ErrorKind::usage, "--dtype {}: the weights reach {:.3g}, which it cannot hold; use bf16 or f32",
                order.type, difference.largest_value);
  const bool same_tokenizer =
      !model.tokenizer || (back.tokenizer && back.tokenizer->vocab_size() >= model.tokenizer->vocab_size());
  if (!same_tokenizer) log_info("{}: the tokenizer cannot be read back", order.out);
  return difference;
}

// As --format says; not given: by the output's name.
bool is_to_gguf(const Options& options) {
  const bool named = options.text("output").ends_with(".gguf"), asked = options.text("format") == "gguf";
  if (named && !asked && options.given("format"))
    throw Error(ErrorKind::usage,
                "--output {} is the name of a GGUF file, --format hf writes a directory; give --format gguf or a "
                "directory's name",
                options.text("output"));
  return named || asked;
}

}  // namespace

int run_export(const Options& options) {
  apply_threads(options);
  if (!options.has("output"))
    throw Error(ErrorKind::usage, "--output is not given; name the directory (--format hf) or the .gguf file to write");
  ExportOrder order{.out = options.text("output"), .gguf = is_to_gguf(options)};
  ModelDescription model = model_to_export(options);
  order.type = target_type(options, model, order.gguf);
  const ChatTemplates templates = read_chat_templates(model.dir.path);
  order.gguf ? check_gguf_output(order.out) : check_hf_output(order.out);
  std::optional<GgufMetadata> metadata;
  if (order.gguf) metadata = gguf_metadata(model, templates);
  leave_out_predicting_layers(model);
  tell_losses(model, order.gguf);
  require_room_to_export(options, model);

  const int64_t start_ns = real_clock().now_ns();
  Arena arena;
  const ModelWeights weights = load_weights(model.spec, model.dir.path, model.dtype, arena);
  log_info("read {} parameters from {}", format_with_commas(num_parameters(model.spec) + num_fixed_numbers(model.spec)),
           model.dir.path);
  check_range(model, weights, order.type);
  // It comes to its place when it has been read back.
  OutputDirectory output(real_io(), order.out);
  const std::string made = order.gguf ? join_path(output.temporary(), file_name(order.out)) : output.temporary();
  const WrittenBytes written = order.gguf ? write_gguf_file(model, std::move(*metadata), weights, order.type, made)
                                          : write_hf(options, model, templates, weights, order.type, made);
  log_info("wrote {}; reading it back", format_bytes(written.bytes));
  const WeightsDifference difference = compare_with_written(model, weights, written, order, made, arena);
  order.gguf ? output.publish_file(file_name(order.out)) : output.publish();
  if (written.as_f16 > 0)
    log_info("{} written as f16: their rows are no multiple of Q8_0's block of 32",
             written.as_f16 == 1 ? "1 matrix" : fmt::format("{} matrices", written.as_f16));
  const double seconds = seconds_between(start_ns, real_clock().now_ns());
  if (options.flag("json")) {
    print_json({{"model", options.positional("MODEL")},
                {"output", order.out},
                {"format", order.gguf ? "gguf" : "hf"},
                {"dtype", order.type},
                {"bytes", written.bytes},
                {"parameters", difference.num_elements},
                {"different", difference.num_different},
                {"largest_difference", difference.largest},
                {"tokenizer", model.tokenizer.has_value()},
                {"chat_templates", templates.by_name.size()},
                {"seconds", seconds}});
  } else {
    print_out(fmt::format("{}  {} of {}; read back: {}\n", order.out, format_bytes(written.bytes), order.type,
                          difference_words(difference, order.type)));
  }
  return 0;
}

}  // namespace tern
