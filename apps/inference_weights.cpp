#include "apps/inference_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr double kProbeSeconds = 0.3;

std::vector<Extent> streamed_extents(const StreamPlan& plan) {
  std::vector<Extent> extents;
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands)
      if (!plan.stays[at++]) extents.push_back(band.extent);
  return extents;
}

double gigabytes(double bytes) { return bytes * 1e-9; }

}  // namespace

WeightsChoice choose_weights(const Options& options, const ModelDescription& model, const InferenceNeeds& needs,
                             const MemoryBudget& budget) {
  WeightsChoice choice;
  choice.coded = stays_coded(options, model, needs, budget);
  choice.fit = inference_fit(model.spec, model.dtype, needs, choice.coded);
  if (choice.fit.total() <= budget.bytes) return choice;
  if (options.text("weights") != "auto" || in_integers(options) || model.dtype == DType::f64)
    check_fit(model.spec, model.dtype, needs, budget, choice.coded);  // throws
  choice.coded = {};
  choice.stream = plan_stream(model, needs, budget);
  choice.fit = choice.stream->fit;
  return choice;
}

int64_t choose_chunk(const Options& options, const ModelDescription& model, InferenceNeeds needs,
                     const MemoryBudget& budget, int64_t prompt, int64_t tokens, int64_t chunk) {
  const auto with = [&](int64_t c) {
    InferenceNeeds n = needs;
    n.iteration_tokens = iteration_tokens(prompt, c, needs.sequences);
    return n;
  };
  if (options.given("chunk") || prompt <= 1 || model.dtype == DType::f64 || options.text("weights") != "auto")
    return chunk;
  if (inference_fit(model.spec, model.dtype, with(chunk), stays_coded(options, model, with(chunk), budget)).total() <=
      budget.bytes)
    return chunk;
  int64_t best = chunk, least = INT64_MAX;
  for (int64_t pieces = 1; pieces <= 16 && pieces <= prompt; ++pieces) {
    const int64_t size = (prompt + pieces - 1) / pieces;
    try {
      const int64_t bytes = plan_stream(model, with(size), budget).streamed_bytes * (pieces + tokens);
      if (bytes < least) best = size, least = bytes;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
    }
  }
  return best;
}

InferenceWeights::InferenceWeights(const Options& options, const ModelDescription& model, const WeightsChoice& choice,
                                   int64_t tokens, Arena& arena) {
  if (!choice.stream) {
    const WeightsPlace place = weights_in(options, model, choice.fit, tokens, choice.coded);
    name_ = place.name;
    whole_ = load_for_inference(model, arena, place.in);
    return;
  }
  stream_ = &*choice.stream;
  name_ = "streamed";
  OpenedBlocks opened = open_blocks(stream_->bands.paths);
  way_ = opened.way;
  if (!opened.note.empty()) log_info("{}", opened.note);
  measure_products(*stream_, model.dtype, rates_);
  probe_ = probe_rate(*opened.files, streamed_extents(*stream_), stream_->ring.threads, kProbeSeconds);
  rates_.disk = probe_.bytes_per_s();
  tell_before();
  streamed_ = load_streamed(model.spec, model.dir.path, model.dtype, stream_->bands, stream_->stays,
                            std::move(opened.files), stream_->ring, arena);
  load_adapter_of(model, streamed_.weights, arena);
}

void InferenceWeights::tell_before() const {
  const StreamTimes times = stream_times(*stream_, rates_);
  log_info(
      "the weights do not fit: {} of their matrices stay in memory, {} of {} are read for each token ({} reads, {} "
      "threads, a ring of {})",
      format_bytes(stream_->kept_bytes), format_bytes(stream_->streamed_bytes), format_bytes(stream_->pass_bytes),
      name_of(way_), stream_->ring.threads, format_bytes(stream_->fit.ring));
  log_info(
      "bound {:.3g} tok/s by {}: the disk gives {:.2f} GB/s ({} read in {:.2f} s), products take {:.1f} GB/s of "
      "weights that stay and {:.1f} of others; predicted {:.3g} tok/s",
      1 / times.bound_s(), times.binds(), gigabytes(rates_.disk), format_bytes(probe_.bytes), probe_.seconds,
      gigabytes(rates_.kept), gigabytes(rates_.coded), 1 / times.pass_s);
}

std::string InferenceWeights::reached(const RunTimings& timings) const {
  if (!stream_ || timings.decode_tokens == 0) return "";
  const double rate = static_cast<double>(timings.decode_tokens) / timings.decode_s;
  const double passes = static_cast<double>(timings.decode_iterations_s.size());
  return fmt::format("{:.0f} % of the bound that was foretold; {:.2f} GB/s were read while decoding",
                     100 * rate * stream_times(*stream_, rates_).bound_s(),
                     gigabytes(passes * static_cast<double>(stream_->streamed_bytes) / timings.decode_s));
}

Json InferenceWeights::json(const RunTimings& timings) const {
  const StreamTimes times = stream_times(*stream_, rates_);
  const RingCounts counts = streamed_.ring->counts();
  Json out = {{"kept_bytes", stream_->kept_bytes},
              {"bytes_per_token", stream_->streamed_bytes},
              {"pass_bytes", stream_->pass_bytes},
              {"ring_bytes", stream_->fit.ring},
              {"slots", stream_->ring.slots},
              {"threads", stream_->ring.threads},
              {"reader", name_of(way_)},
              {"disk_bytes_per_s", rates_.disk},
              {"probe_bytes", probe_.bytes},
              {"filled_bytes", streamed_.filled_bytes},
              {"fill_s", streamed_.fill_s},
              {"product_bytes_per_s", {{"kept", rates_.kept}, {"streamed", rates_.coded}}},
              {"bound_tokens_per_s", 1 / times.bound_s()},
              {"bound_by", times.binds()},
              {"predicted_tokens_per_s", 1 / times.pass_s},
              {"used_bytes", counts.used_bytes},
              {"read_bytes", counts.read_bytes},
              {"skipped_extents", counts.skipped},
              {"waited_s", 1e-9 * static_cast<double>(counts.waited_ns)}};
  if (timings.decode_tokens > 0)
    out["reached"] = static_cast<double>(timings.decode_tokens) / timings.decode_s * times.bound_s();
  return out;
}

}  // namespace tern
