// tern quantize MODEL: its weights in fewer bits, in one GGUF file or a directory of tern's own; parameter by parameter, so
// that any model passes through little memory.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "apps/common.h"
#include "apps/gguf_output.h"
#include "apps/hf_output.h"
#include "apps/outputs.h"
#include "apps/quantize_mixture.h"
#include "apps/quantize_report.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/chat/template_files.h"
#include "formats/chat/training.h"
#include "formats/data/text_data.h"
#include "formats/gguf/model.h"
#include "formats/gguf/round_blocks.h"
#include "infer/memory_fit.h"
#include "kernels/cpu/vector.h"
#include "model/not_finite.h"
#include "model/read_parameter.h"
#include "model/rounding_error.h"
#include "model/save_coded.h"
#include "model/save_gguf.h"
#include "model/visit_weights.h"
#include "quantize/gptq.h"
#include "quantize/layer_coder.h"
#include "quantize/loftq_coder.h"
#include "quantize/sensitivity.h"

namespace tern {
namespace {

// What says something to each method.
constexpr std::string_view kOfRtn[] = {"output", "method",     "type",    "bits",   "table-type",
                                       "report", "valid-data", "threads", "memory", "json"};
constexpr std::string_view kOfGptq[] = {
    "output", "method",     "type",    "bits",   "table-type", "data",         "calibration-tokens",
    "report", "valid-data", "threads", "memory", "json",       "chat-template"};
constexpr std::string_view kOfLcq[] = {"output",      "method",        "bits",
                                       "table-type",  "data",          "calibration-tokens",
                                       "report",      "valid-data",    "threads",
                                       "memory",      "json",          "target-bytes",
                                       "sensitivity", "chat-template", "reconstruction-steps"};

constexpr std::string_view kOfLoftq[] = {"output", "method",     "rank",    "rounds", "type", "table-type",
                                         "report", "valid-data", "threads", "memory", "json"};

struct MethodOptions {
  std::string_view method;
  std::span<const std::string_view> options;
};
constexpr MethodOptions kMethods[] = {{"rtn", kOfRtn}, {"gptq", kOfGptq}, {"lcq", kOfLcq}, {"loftq", kOfLoftq}};

// An option that says nothing to the method is refused with the methods that it says something to.
void refuse_options_of_others(const Options& options, std::string_view method) {
  const auto of = [](const MethodOptions& m, std::string_view name) { return std::ranges::count(m.options, name) > 0; };
  for (const auto& [name, value] : options.values()) {
    const bool given = value.set && (value.origin == Origin::command_line || value.origin == Origin::recipe);
    std::string others;
    bool is_of_it = false;
    for (const MethodOptions& m : kMethods) {
      if (!of(m, name)) continue;
      is_of_it = is_of_it || m.method == method;
      others += (others.empty() ? "" : " or ") + std::string(m.method);
    }
    if (!given || is_of_it) continue;
    const char* way = name == "bits" ? "give --type" : name == "type" ? "give --bits" : "leave it out";
    throw Error(ErrorKind::usage, "{}: --{} says nothing to --method {}; {}{}", options.verb().name, name, method, way,
                others.empty() ? "" : ", or choose --method " + others);
  }
}

// Of what a directory holds as numbers.
DType written_dtype(const ModelDescription& model) {
  return model.dtype == DType::f64 ? DType::f32 : model.config.dtype.value_or(model.dtype);
}

bool is_mixed(const Options& options) { return options.text("method") == "lcq" && options.text("bits") == "mixed"; }

// Of a mixture the widest of LC: no matrix has it that is not chosen to.
WeightType type_of_matrices(const Options& options) {
  const std::string method = options.text("method"), bits = options.text("bits");
  if (method == "lcq") return is_mixed(options) ? WeightType::lc4 : weight_type_of_choice("lc" + bits);
  if (!options.given("bits")) return weight_type_of_choice(options.text("type"));
  if (options.given("type"))
    throw Error(ErrorKind::usage, "quantize: --bits {} is --type u{} of --method {}; give one of the two", bits, bits,
                method);
  return weight_type_of_choice("u" + bits);
}

// The first `most` tokens of a file of documents, one document after the other, or of a text.
std::vector<int32_t> first_of_documents(const Options& options, const ModelDescription& model, const std::string& path,
                                        int64_t most) {
  const TokenData file = load_documents(options, model, path, Answers::last, most);
  std::vector<int32_t> tokens(static_cast<size_t>(std::min(most, file.num_tokens())));
  file.read(0, tokens);
  return tokens;
}
std::vector<int32_t> first_of_text(const Options& options, const Tokenizer& tokenizer, const std::string& path,
                                   int64_t most) {
  const std::string text = read_text(path, {.bytes = text_room(options)});
  check_text(text, path);
  bool whole = false;
  return encode_at_most(tokenizer, text, static_cast<size_t>(most), whole, text_room(options), path);
}

// Windows of --data, as many as --calibration-tokens asks for; empty without calibration.
CalibrationText calibration_of(const Options& options, const ModelDescription& model) {
  CalibrationText c;
  const std::string method = options.text("method");
  if (method == "rtn" || method == "loftq") return c;
  if (!options.has("data"))
    throw Error(ErrorKind::usage, "--method {}: --data is not given; name a text like those the model will read",
                method);
  if (!model.tokenizer)
    throw Error(ErrorKind::usage, "--method {}: {} has no tokenizer to read --data with", method, model.dir.path);
  const std::string path = options.text("data");
  refuse_words_of_conversations(options, path);
  const int64_t wanted = options.integer("calibration-tokens");
  c.window = std::min({c.window, model_context(model), wanted});
  c.tokens = has_documents(path) ? first_of_documents(options, model, path, wanted)
                                 : first_of_text(options, *model.tokenizer, path, wanted);
  if (static_cast<int64_t>(c.tokens.size()) < c.window)
    throw Error(ErrorKind::usage, "--data {}: {} tokens, calibration wants at least a window of {}", path,
                c.tokens.size(), c.window);
  return c;
}

Reconstruction reconstruction_of(const Options& options) {
  return {.steps = options.text("method") == "lcq" ? options.integer("reconstruction-steps") : 0};
}

// The largest parameter as it is read, and the same of the file that is compared with it; and what calibration holds.
void check_memory(const Options& options, const ModelDescription& model, const CalibrationText& calibration) {
  const MemoryBudget budget = memory_budget(options);
  int64_t largest = 0;
  for (const ParameterInfo& info : parameters(model.spec)) largest = std::max(largest, info.shape.count());
  // As it is read twice, and its blocks; or, where no reference rounds it, as it is read, as it is coded, and its blocks.
  int64_t needed = 2 * largest * size_of(DType::f32);
  for (const WeightType type : {type_of_matrices(options), weight_type_of_choice(options.text("table-type"))})
    if (!rounds_to(type))
      needed = std::max(needed, static_cast<int64_t>(static_cast<double>(largest) * (8 + bits_per_weight(type) / 8)));
  const auto tokens = static_cast<int64_t>(calibration.tokens.size());
  if (tokens > 0)
    needed += LayerCoder::peak_bytes(model.spec, tokens, calibration.window, reconstruction_of(options).steps > 0);
  if (is_mixed(options)) needed = std::max(needed, SensitivityMeter::peak_bytes(model.spec, calibration));
  if (options.given("valid-data")) needed = std::max(needed, measuring_bytes(model));
  if (const std::string more = memory_remedy(budget, needed); needed > budget.bytes)
    throw Error(ErrorKind::does_not_fit, "quantize: {} needs {}, there are {} ({}); use {}",
                tokens > 0 || options.given("valid-data") ? "what is held at once of the weights and of the texts"
                                                          : "the largest parameter, as read and as written,",
                format_bytes(needed), format_bytes(budget.bytes), budget.source,
                more.empty() ? "a machine with more memory" : more + " or more");
}

struct Quantized {
  GgufTypes types;
  bool gguf = false;
  int64_t bytes = 0, matrix_bytes = 0;  // of all files; of coded matrices, in a directory
  int64_t num_wide = 0;                 // matrices that stay wider: their rows are no whole blocks
  std::vector<RoundingError> errors;
  int64_t tensor_bytes = 0;          // in a directory: of the weights' files without their headers
  Mixture mixture;                   // of --bits mixed
  std::set<std::string> of_loftq;    // matrices that have its codes
  std::vector<double> round_errors;  // of these with the adapter, after each round
  int64_t calibration_tokens = 0;
  double seconds = 0;
};

// Each block by itself.
class RoundedMatrices {
 public:
  explicit RoundedMatrices(const ReadParameter& read) : read_(read) {}
  const CodedMatrix& of(const ParameterInfo& info, WeightType type) {
    if (info.name == name_) return matrix_;
    const Tensor t = read_(info);
    const std::span<float> numbers = t.span<float>();
    if (rounds_to(type)) {
      std::string bytes;
      round_blocks(type, numbers, info.name, bytes);
      const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
      matrix_.rows.assign(begin, begin + bytes.size());
    } else {
      if (!all_finite(numbers)) throw NotFinite("'{}' holds a number that is not finite", info.name);
      std::vector<float> rows(numbers.begin(), numbers.end());  // what is read is compared later
      matrix_.rows = gptq_blocks(type, rows, info.shape[0], info.shape[1], {});
    }
    name_ = info.name;
    return matrix_;
  }

 private:
  const ReadParameter& read_;
  std::string name_;
  CodedMatrix matrix_;
};

// What the codes depend on beside the weights.
std::string run_of(const Options& options, const CalibrationText& calibration, const GgufTypes& types) {
  std::string type(name_of(types.matrices));
  if (is_mixed(options)) {
    std::string each;
    for (const auto& [name, of] : types.single) each += fmt::format("{} {}\n", name, name_of(of));
    type = fmt::format("mixture {:08x}", crc32c(std::as_bytes(std::span(each))));
  }
  const int64_t steps = reconstruction_of(options).steps;
  return fmt::format("{} {}{}{}, {} tokens of {:08x} in windows of {}", options.text("method"), type,
                     table_bytes(types.matrices) > 0 ? " with scales in bf16" : "",
                     steps > 0 ? fmt::format(", {} steps of reconstruction", steps) : "", calibration.tokens.size(),
                     crc32c(std::as_bytes(std::span(calibration.tokens))), calibration.window);
}

// All units' codes, chosen now or by a run before that did not come to its end.
void choose_codes(const ModelSpec& spec, LayerCoder& coder, const std::string& kept) {
  const StopSignals signals(kStopsSafely);
  const auto units = static_cast<int64_t>(spec.units.size()) - 1;  // the head's matrix is a table of tokens
  Progress progress("quantize", units, real_clock(), {}, "units coded");
  for (int64_t unit = 0; unit < units; ++unit) {
    coder.code_until(static_cast<int>(unit));
    progress.update(unit + 1);
    stop_if_asked(unit + 1, units, kept);
  }
  progress.finish();
}

// nullptr: another method.
std::unique_ptr<LoftqCoder> loftq_coder(const Options& options, const ModelSpec& spec, const ReadParameter& read,
                                        Arena& arena) {
  if (options.text("method") != "loftq") return {};
  return std::make_unique<LoftqCoder>(spec, read, options.integer("rank"), static_cast<int>(options.integer("rounds")),
                                      options.text("output"), arena);
}

void mix_types(const Options& options, const ModelDescription& model, const CalibrationText& calibration,
               const std::string& out, Arena& arena, Quantized& q) {
  const StopSignals signals(kStopsSafely);
  const std::string measures = options.has("sensitivity") ? options.text("sensitivity") : out + ".partial";
  q.mixture = choose_types(options, model, calibration, q.types, written_dtype(model), measures, arena);
  q.types.single = q.mixture.types();
}

// code: empty if numbers are only rounded.
void write_gguf_file(const ModelDescription& model, const ReadParameter& read, const CodeMatrix& code,
                     GgufMetadata metadata, const std::string& path, Quantized& q) {
  CodeParameter rows;
  if (code) rows = [&](const ParameterInfo& info, WeightType type) { return std::span(code(info, type).rows); };
  const GgufSaved saved =
      save_gguf(model.spec, model.config, read, q.types, std::move(metadata), path, real_io(), rows);
  q.bytes = saved.file_bytes, q.num_wide = saved.as_f16;
}

void write_directory(const ModelDescription& model, const ChatTemplates& templates, const ReadParameter& read,
                     const CodeMatrix& code, const std::string& path, Quantized& q) {
  const CodedSaved saved =
      save_coded(model.spec, model.config, read, code, q.types, written_dtype(model), path, real_io());
  write_companions(model, templates, path, real_io());
  q.matrix_bytes = saved.matrix_bytes, q.num_wide = saved.num_dense, q.tensor_bytes = saved.tensor_bytes;
}

Quantized quantize(const Options& options, const ModelDescription& model, const std::string& out) {
  Quantized q{
      .types = {.matrices = type_of_matrices(options), .tables = weight_type_of_choice(options.text("table-type"))},
      .gguf = is_gguf_path(out)};
  const ChatTemplates templates = read_chat_templates(model.dir.path);
  std::optional<GgufMetadata> metadata = q.gguf ? std::optional(gguf_metadata(model, templates)) : std::nullopt;
  const CalibrationText calibration = calibration_of(options, model);
  check_memory(options, model, calibration);
  const int64_t start_ns = real_clock().now_ns();
  Arena arena;
  if (is_mixed(options)) mix_types(options, model, calibration, out, arena, q);
  CodeStore store(real_io(), out + ".partial", run_of(options, calibration, q.types));
  std::optional<LayerCoder> coder;
  if (!calibration.tokens.empty()) {
    coder.emplace(model.spec, model.dir.path, calibration, q.types.matrices, arena, &store,
                  LayerCoding{.single = q.types.single, .reconstruction = reconstruction_of(options)});
    choose_codes(model.spec, *coder, out + ".partial");
  }
  ParameterReader from(model.spec, model.dir.path);
  OutputDirectory output(real_io(), out);  // comes to its place when it has been read back
  const std::string made = q.gguf ? join_path(output.temporary(), file_name(out)) : output.temporary();
  const auto num = static_cast<int64_t>(parameters(model.spec).size());
  Progress progress("write", 2 * num, real_clock(), {}, "parameters written and read back");
  std::set<std::string> begun;
  const auto begin = [&](const ParameterInfo& info) {
    if (begun.insert(info.name).second) progress.update(static_cast<int64_t>(begun.size()) - 1);
  };
  const ReadParameter read = [&](const ParameterInfo& info) {
    begin(info);
    return from.read(info, DType::f32, arena);
  };
  RoundedMatrices rounded(read);
  const std::unique_ptr<LoftqCoder> beside = loftq_coder(options, model.spec, read, arena);
  const CodeMatrix code = [&](const ParameterInfo& info, WeightType type) -> const CodedMatrix& {
    begin(info);
    if (beside && has_codes(model.spec, info)) return q.of_loftq.insert(info.name), beside->code(info, type);
    return coder && has_codes(model.spec, info) ? coder->code(info) : rounded.of(info, type);
  };
  if (q.gguf) {
    const bool only_rounded = !coder && rounds_to(q.types.matrices) && rounds_to(q.types.tables);
    write_gguf_file(model, read, only_rounded ? CodeMatrix() : code, std::move(*metadata), made, q);
  } else {
    write_directory(model, templates, read, code, made, q);
    if (beside) beside->save(join_path(made, "adapter"), real_io()), q.round_errors = beside->relative_errors();
    q.bytes = bytes_in(real_io(), made);
  }
  q.calibration_tokens = static_cast<int64_t>(calibration.tokens.size());
  ParameterReader to(model.spec, made);
  q.errors = rounding_errors(model.spec, from, to, arena, [&](int64_t done) { progress.update(num + done); });
  progress.finish();
  q.gguf ? output.publish_file(file_name(out)) : output.publish();
  store.remove();
  q.seconds = seconds_between(start_ns, real_clock().now_ns());
  return q;
}

// Of loftq's matrices without the adapter.
double codes_error(const Quantized& q) {
  std::vector<RoundingError> coded;
  for (const RoundingError& e : q.errors)
    if (q.of_loftq.contains(e.parameter)) coded.push_back(e);
  return total_of(coded).relative();
}

double bits_per_weight(const Quantized& q) {
  return 8 * static_cast<double>(q.bytes) / static_cast<double>(total_of(q.errors).elements);
}

std::string name_of_types(const Quantized& q) {
  return q.types.single.empty() ? std::string(name_of(q.types.matrices)) : "mixed";
}

Json json_of(const Options& options, const Quantized& q, const std::string& out) {
  const RoundingError total = total_of(q.errors);
  Json tensors = Json::array();
  for (const RoundingError& e : q.errors)
    tensors.push_back({{"parameter", e.parameter}, {"elements", e.elements}, {"relative_error", e.relative()}});
  return {{"model", options.positional("MODEL")},
          {"output", out},
          {"method", options.text("method")},
          {"calibration_tokens", q.calibration_tokens},
          {"reconstruction_steps", reconstruction_of(options).steps},
          {"type", name_of_types(q)},
          {"table_type", name_of(q.types.tables)},
          {"bytes", q.bytes},
          {"matrix_bytes", q.gguf ? Json() : Json(q.matrix_bytes)},  // counted in directories alone
          {"tensor_bytes", q.gguf ? Json() : Json(q.tensor_bytes)},
          {"mixture", q.types.single.empty() ? Json() : mixture_json(q.mixture)},
          {"parameters", total.elements},
          {"bits_per_weight", bits_per_weight(q)},
          {"matrices_kept_wide", q.num_wide},
          {"relative_error", total.relative()},
          {"relative_error_of_codes", q.round_errors.empty() ? Json() : Json(codes_error(q))},
          {"relative_error_of_rounds", q.round_errors},
          {"tensors", std::move(tensors)},
          {"seconds", q.seconds}};
}

void tell(const Options& options, const ModelDescription& model, const Quantized& q, const std::string& out) {
  if (options.flag("json")) return print_json(json_of(options, q, out));
  const RoundingError total = total_of(q.errors);
  const RoundingError& worst = *std::ranges::max_element(q.errors, {}, &RoundingError::relative);
  print_out(fmt::format(
      "{}  {} ({:.2f} bits per weight, everything in the file counted); matrices in {}, tables of tokens in {}\n"
      "rounding error: {:.2f} % of the weights' root mean square; the largest in '{}', {:.2f} %\n",
      out, format_bytes(q.bytes), bits_per_weight(q),
      q.types.single.empty() ? std::string(name_of(q.types.matrices)) : "a mixture: " + counts_text(q.mixture),
      name_of(q.types.tables), 100 * total.relative(), worst.parameter, 100 * worst.relative()));
  if (const int64_t steps = reconstruction_of(options).steps; steps > 0)
    print_out(fmt::format("tables and row scales of each unit trained in {}\n", counted(steps, "step")));
  if (!q.types.single.empty())
    print_out(fmt::format("weights: {} bytes of {} asked for; coded alone, its matrices cost {:.5f} nats in all\n",
                          format_with_commas(q.tensor_bytes), format_with_commas(q.mixture.target_bytes),
                          q.mixture.divergence));
  if (!q.round_errors.empty()) {
    std::string rounds;
    for (const double e : q.round_errors) rounds += fmt::format("{}{:.2f} %", rounds.empty() ? "" : ", ", 100 * e);
    print_out(fmt::format("of the coded matrices alone: {:.2f} %; with the adapter in {}/adapter {} after each round\n",
                          100 * codes_error(q), out, rounds));
  }
  if (model.tokenizer)
    log_info("how much worse it predicts: tern eval {} --data TEXT --reference {}", out, options.positional("MODEL"));
}

// "Q4_0", or "numbers" of what has no codes.
std::string type_written(const ModelSpec& spec, const ParameterInfo& info, const GgufTypes& types) {
  const std::optional<WeightType> type = type_in_directory(spec, info, types);
  return type && fills_blocks(*type, info.shape[1]) ? std::string(name_of(*type)) : "numbers";
}

// False: a stop was asked for.
bool write_report(const Options& options, const ModelDescription& model, const Quantized& q, const std::string& out) {
  const Json run = json_of(options, q, out);
  QuantizeReport report{.run = run, .texts = {}, .tensors = {}};
  const StopSignals signals;
  try {
    for (const std::string& path : options.list("valid-data"))
      report.texts.push_back(naming_bad_weights(model, [&] { return measure_text(model, out, path); }));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    log_info("{}; {} is written, the report is not", error.what(), out);
    return false;
  }
  const std::vector<ParameterInfo> infos = parameters(model.spec);
  for (size_t i = 0; i < q.errors.size(); ++i)
    report.tensors.push_back({q.errors[i], type_written(model.spec, infos[i], q.types)});
  const std::string path = options.text("report");
  write_file_atomically(real_io(), path, report_file(report, path));
  log_info("wrote {}", path);
  return true;
}

void check_report(const Options& options, const ModelDescription& model) {
  if (!options.has("report")) {
    if (options.given("valid-data"))
      throw Error(ErrorKind::usage, "--valid-data says nothing without --report FILE, which what is measured goes to");
    return;
  }
  require_report_name(options.text("report"));
  require_writable(options);
  for (const std::string& path : options.list("valid-data")) {
    if (!model.tokenizer)
      throw Error(ErrorKind::usage, "--valid-data {}: {} has no tokenizer to read it with", path, model.dir.path);
    check_text(read_text(path), path);
  }
}

}  // namespace

int run_quantize(const Options& options) {
  apply_threads(options);
  if (!options.has("output"))
    throw Error(ErrorKind::usage, "--output is not given; name a directory, or a .gguf file, to write");
  const std::string method = options.text("method"), out = options.text("output");
  if (options.text("bits") == "mixed" && method != "lcq")
    throw Error(ErrorKind::usage, "quantize: --bits mixed is of --method lcq");
  refuse_options_of_others(options, method);
  if (method == "loftq" && is_gguf_path(out))
    throw Error(ErrorKind::usage, "--output {}: --method loftq writes a directory, with its adapter in it", out);
  const WeightType type = type_of_matrices(options);
  if (is_gguf_path(out) && row_of(type).gguf == kNotInGguf)
    throw Error(ErrorKind::usage,
                "--output {}: GGUF has no type {}; name a directory, which tern itself reads, or choose another {}",
                out, name_of(type), method == "lcq" ? "--method" : "--type");
  for (const char* name : {"target-bytes", "sensitivity"})
    if (options.given(name) && !is_mixed(options))
      throw Error(ErrorKind::usage, "--{} is of --method lcq --bits mixed", name);
  ModelDescription model = describe_model(options.positional("MODEL"), std::nullopt);
  refuse_encoder(model, "quantize");
  tell_notes(model);
  is_gguf_path(out) ? check_gguf_output(out) : check_hf_output(out);
  check_report(options, model);
  if (is_mixed(options))
    require_target(options, model, {.matrices = type, .tables = weight_type_of_choice(options.text("table-type"))},
                   written_dtype(model));
  const Quantized q = naming_bad_weights(model, [&] { return quantize(options, model, out); });
  if (q.num_wide > 0)
    log_info("{} not in {}: rows that are no whole blocks{}",
             q.num_wide == 1 ? "1 matrix is" : fmt::format("{} matrices are", q.num_wide), name_of(q.types.matrices),
             q.gguf ? " are written as f16" : " are written as numbers");
  tell(options, model, q, out);
  if (options.has("report") && !write_report(options, model, q, out)) return 128 + stop_signal();
  return 0;
}

}  // namespace tern
