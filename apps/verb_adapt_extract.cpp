// tern adapt extract BASE TUNED: the difference of two models becomes an adapter of low rank, in a PEFT directory.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adapt/adapter_file.h"
#include "adapt/extract.h"
#include "apps/common.h"
#include "apps/hf_output.h"
#include "apps/signals.h"
#include "apps/verb_adapt_combine.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/units.h"
#include "base/wide_type.h"
#include "infer/load.h"
#include "model/adapter_files.h"
#include "model/parameter_reader.h"
#include "train/adapter_targets.h"

namespace tern {
namespace {

// The two models without their weights.
struct ModelPair {
  ModelDescription base, tuned;
  // f64 if one of them is; else f32, which holds the numbers of all other forms.
  DType dtype() const { return wide_type(base.dtype == DType::f64 ? base.dtype : tuned.dtype); }
};

ModelPair describe_pair(const Options& options) {
  ModelPair pair{describe_model(options.positional("BASE"), std::nullopt),
                 describe_model(options.positional("TUNED"), std::nullopt)};
  for (const ModelDescription* m : {&pair.base, &pair.tuned}) {
    refuse_encoder(*m, "adapt extract");
    tell_notes(*m);
  }
  require_same_parameters(pair.base.spec, pair.tuned.spec);
  PeftConfig wanted;
  wanted.targets = targets_from(options);
  wanted.rank = options.integer("rank"), wanted.alpha = static_cast<double>(wanted.rank);
  require_targets(pair.base.spec, wanted);
  pair.base.spec = with_adapters(std::move(pair.base.spec), wanted, "--target");
  return pair;
}

ExtractedAdapter extract_from(const ModelPair& pair) {
  Arena arena;
  ParameterReader base(pair.base.spec, pair.base.dir.path), tuned(pair.tuned.spec, pair.tuned.dir.path);
  const DType dtype = pair.dtype();
  const auto reads = [&](ParameterReader& reader) {
    return [&reader, &arena, dtype](const ParameterInfo& info) { return reader.read(info, dtype, arena); };
  };
  const auto num = static_cast<int64_t>(parameters(pair.base.spec).size());
  Progress progress("extract", num, real_clock(), {}, "parameters");
  ExtractedAdapter extracted = extract_adapter({pair.base.spec, reads(base)}, {pair.tuned.spec, reads(tuned)},
                                               [&](int64_t done) { progress.update(std::min(done, num)); });
  progress.finish();
  return extracted;
}

// Some of the names, and how many more there are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 8;
  const size_t named = std::min(names.size(), kNamed);
  std::string text = join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named)}, ", ");
  if (named < names.size()) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

void tell_left_out(const Options& options, const ExtractedAdapter& e) {
  const std::string &base = options.positional("BASE"), &tuned = options.positional("TUNED");
  const auto num = static_cast<int64_t>(e.left_out.size());
  if (e.cuts.empty())
    throw Error(ErrorKind::bad_file,
                "{}: no matrix that would get an adapter differs from {}{}; are these the two models?", tuned, base,
                num == 0 ? "" : fmt::format(", only {}: {}", counted(num, "other tensor"), some_of(e.left_out)));
  if (num > 0)
    log_warn("{} differ{} too and {} not in the adapter, beside which {} keeps its own: {}", counted(num, "tensor"),
             num == 1 ? "s" : "", num == 1 ? "is" : "are", base, some_of(e.left_out));
}

// Returns the bytes of the directory. A signal that comes meanwhile leaves nothing of it.
int64_t write_adapter(const AdapterMatrices& matrices, const PeftConfig& config, DType dtype, const std::string& out) {
  const StopSignals signals(kStopsSafely);
  OutputDirectory output(real_io(), out);
  write_adapter_file(matrices, config, dtype, output.temporary(), real_io());
  const int64_t bytes = bytes_in(real_io(), output.temporary());
  if (stop_requested())
    throw Error(ErrorKind::interrupted, "{}: stopped before it was complete; the same command starts anew", out);
  output.publish();
  return bytes;
}

// The matrix of which the smallest share is kept.
const MatrixCut& worst_of(const std::vector<MatrixCut>& cuts) {
  return *std::ranges::min_element(cuts, {}, &MatrixCut::share);
}

Json extracted_json(const Options& options, const ExtractedAdapter& e, int64_t rank, DType dtype, int64_t bytes) {
  Json each = Json::object();
  for (const MatrixCut& c : e.cuts) each[c.module] = c.share();
  return {{"base", options.positional("BASE")},
          {"tuned", options.positional("TUNED")},
          {"output", options.text("output")},
          {"dtype", name_of(dtype)},
          {"rank", rank},
          {"matrices", e.cuts.size()},
          {"same", e.same},
          {"kept", e.whole().share()},
          {"kept_least", worst_of(e.cuts).share()},
          {"kept_least_in", worst_of(e.cuts).module},
          {"kept_of_each", std::move(each)},
          {"left_out", e.left_out},
          {"bytes", bytes}};
}

void print_extracted(const Options& options, const ExtractedAdapter& e, int64_t rank, DType dtype, int64_t bytes) {
  const auto num = static_cast<int64_t>(e.cuts.size());
  const MatrixCut& worst = worst_of(e.cuts);
  print_out(
      fmt::format("{}  {}: {} of rank {}, in {}{}\n"
                  "of the difference's squared norm {:.6g} % is kept; the least in {}, {:.6g} %\n"
                  "the base with it: tern generate {} --adapter {}\n",
                  options.text("output"), format_bytes(bytes), counted(num, "adapted module"), rank, name_of(dtype),
                  e.same == 0 ? "" : fmt::format("; {} more do not differ", e.same), 100 * e.whole().share(),
                  worst.module, 100 * worst.share(), options.positional("BASE"), options.text("output")));
}

}  // namespace

int run_adapt_extract(const Options& options) {
  apply_threads(options);
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the directory to write");
  const std::string out = options.text("output");
  check_hf_output(out);
  const ModelPair pair = describe_pair(options);
  const ExtractedAdapter extracted = extract_from(pair);
  tell_left_out(options, extracted);
  AdapterFile from;
  from.config.base_model = options.positional("BASE");
  const PeftConfig config = combined_config({&from, 1}, extracted.matrices);
  const int64_t bytes = write_adapter(extracted.matrices, config, pair.dtype(), out);
  if (options.flag("json"))
    print_json(extracted_json(options, extracted, config.rank, pair.dtype(), bytes));
  else
    print_extracted(options, extracted, config.rank, pair.dtype(), bytes);
  return 0;
}

}  // namespace tern
