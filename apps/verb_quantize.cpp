// tern quantize MODEL: its weights in fewer bits, in one GGUF file; parameter by parameter, so that any model passes
// through little memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/gguf_output.h"
#include "apps/given_options.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/units.h"
#include "model/gguf_weights.h"
#include "model/rounding_error.h"
#include "quantize/layer_coder.h"

namespace tern {
namespace {

// Options that say something only where inputs show what errors cost.
constexpr std::array<std::string_view, 7> kOfRtn{"output", "method", "type", "table-type", "threads", "memory", "json"};

// Windows of --data, as many as --calibration-tokens asks for; empty without calibration.
CalibrationText calibration_of(const Options& options, const ModelDescription& model) {
  CalibrationText c;
  if (options.text("method") != "gptq") return c;
  if (!options.has("data"))
    throw Error(ErrorKind::usage, "--method gptq: --data is not given; name a text like those the model will read");
  if (!model.tokenizer)
    throw Error(ErrorKind::usage, "--method gptq: {} has no tokenizer to read --data with", model.dir.path);
  const std::string path = options.text("data");
  const int64_t wanted = options.integer("calibration-tokens");
  c.window = std::min({c.window, model_context(model), wanted});
  bool whole = false;
  c.tokens = encode_at_most(*model.tokenizer, read_text(path), static_cast<size_t>(wanted), whole);
  if (static_cast<int64_t>(c.tokens.size()) < c.window)
    throw Error(ErrorKind::usage, "--data {}: {} tokens, calibration wants at least a window of {}", path,
                c.tokens.size(), c.window);
  return c;
}

// The largest parameter as it is read, and the same of the file that is compared with it; and what calibration holds.
void check_memory(const Options& options, const ModelDescription& model, const CalibrationText& calibration) {
  const MemoryBudget budget = memory_budget(options);
  int64_t largest = 0;
  for (const ParameterInfo& info : parameters(model.spec)) largest = std::max(largest, info.shape.count());
  int64_t needed = 2 * largest * size_of(DType::f32);
  const auto tokens = static_cast<int64_t>(calibration.tokens.size());
  if (tokens > 0) needed += LayerCoder::peak_bytes(model.spec, tokens, calibration.window);
  if (const std::string more = memory_remedy(budget, needed); needed > budget.bytes)
    throw Error(ErrorKind::does_not_fit, "quantize: {} needs {}, there are {} ({}); use {}",
                tokens > 0 ? "what is held at once of the weights and of the --data"
                           : "the largest parameter, as read and as written,",
                format_bytes(needed), format_bytes(budget.bytes), budget.source,
                more.empty() ? "a machine with more memory" : more + " or more");
}

struct Quantized {
  GgufTypes types;
  GgufSaved saved;
  std::vector<RoundingError> errors;
  int64_t calibration_tokens = 0;
  double seconds = 0;
};

Quantized quantize(const Options& options, const ModelDescription& model, const std::string& out) {
  Quantized q{.types = {.matrices = weight_type_of_choice(options.text("type")),
                        .tables = weight_type_of_choice(options.text("table-type"))}};
  GgufMetadata metadata = gguf_metadata(model, read_chat_templates(model.dir.path));
  const CalibrationText calibration = calibration_of(options, model);
  check_memory(options, model, calibration);
  const int64_t start_ns = real_clock().now_ns();
  Arena arena;
  ParameterReader from(model.spec, model.dir.path);
  // It comes to its place when it has been read back.
  OutputDirectory output(real_io(), out);
  const std::string made = join_path(output.temporary(), file_name(out));
  const auto num = static_cast<int64_t>(parameters(model.spec).size());
  Progress progress("quantize", 2 * num, real_clock(), {}, "parameters written and read back");
  int64_t begun = 0;
  std::string name;
  const auto begin = [&](const ParameterInfo& info) {
    if (info.name != name) progress.update(begun++);
    name = info.name;
  };
  const ReadParameter read = [&](const ParameterInfo& info) {
    begin(info);
    return from.read(info, DType::f32, arena);
  };
  CodeParameter code;
  std::optional<LayerCoder> coder;
  if (!calibration.tokens.empty()) {
    coder.emplace(model.spec, model.dir.path, calibration, q.types.matrices, arena);
    code = [&](const ParameterInfo& info, WeightType) {
      begin(info);
      return coder->code(info);
    };
  }
  q.saved = save_gguf(model.spec, model.config, read, q.types, std::move(metadata), made, real_io(), code);
  q.calibration_tokens = static_cast<int64_t>(calibration.tokens.size());
  coder.reset();
  ParameterReader to(model.spec, made);
  q.errors = rounding_errors(model.spec, from, to, arena, [&](int64_t done) { progress.update(num + done); });
  progress.finish();
  output.publish_file(file_name(out));
  q.seconds = seconds_between(start_ns, real_clock().now_ns());
  return q;
}

void tell(const Options& options, const ModelDescription& model, const Quantized& q, const std::string& out) {
  const RoundingError total = total_of(q.errors);
  const double bits = 8 * static_cast<double>(q.saved.file_bytes) / static_cast<double>(total.elements);
  if (options.flag("json")) {
    Json tensors = Json::array();
    for (const RoundingError& e : q.errors)
      tensors.push_back({{"parameter", e.parameter}, {"elements", e.elements}, {"relative_error", e.relative()}});
    print_json({{"model", options.positional("MODEL")},
                {"output", out},
                {"method", options.text("method")},
                {"calibration_tokens", q.calibration_tokens},
                {"type", name_of(q.types.matrices)},
                {"table_type", name_of(q.types.tables)},
                {"bytes", q.saved.file_bytes},
                {"parameters", total.elements},
                {"bits_per_weight", bits},
                {"matrices_as_f16", q.saved.as_f16},
                {"relative_error", total.relative()},
                {"tensors", std::move(tensors)},
                {"seconds", q.seconds}});
    return;
  }
  const RoundingError& worst = *std::ranges::max_element(q.errors, {}, &RoundingError::relative);
  print_out(fmt::format(
      "{}  {} ({:.2f} bits per weight, everything in the file counted); matrices in {}, tables of tokens in {}\n"
      "rounding error: {:.2f} % of the weights' root mean square; the largest in '{}', {:.2f} %\n",
      out, format_bytes(q.saved.file_bytes), bits, name_of(q.types.matrices), name_of(q.types.tables),
      100 * total.relative(), worst.parameter, 100 * worst.relative()));
  if (model.tokenizer)
    log_info("how much worse it predicts: tern eval {} --data TEXT --reference {}", out, options.positional("MODEL"));
}

}  // namespace

int run_quantize(const Options& options) {
  apply_threads(options);
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the .gguf file to write");
  if (options.text("method") == "rtn")
    refuse_given_but(options, kOfRtn, "says nothing to --method rtn; leave it out, or choose --method gptq");
  const std::string out = options.text("output");
  ModelDescription model = describe_model(options.positional("MODEL"), std::nullopt);
  refuse_encoder(model, "quantize");
  tell_notes(model);
  check_gguf_output(out);
  const Quantized q = naming_bad_weights(model, [&] { return quantize(options, model, out); });
  if (q.saved.as_f16 > 0)
    log_info("{} written as f16: their rows are no multiple of the block of 32",
             q.saved.as_f16 == 1 ? "1 matrix" : fmt::format("{} matrices", q.saved.as_f16));
  tell(options, model, q, out);
  return 0;
}

}  // namespace tern
