#include "quantize/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/not_finite.h"
#include "model/visit_weights.h"
#include "quantize/gptq.h"
#include "quantize/input_moments.h"

namespace tern {
namespace {

constexpr size_t kProbesAtOnce =
    16;  // that go through the units behind theirs together: a unit is read once for all of them
constexpr int64_t kLogitRows = 64;

CalibrationText beginning_of(const CalibrationText& text) {
  const auto count = std::min<size_t>(text.tokens.size(), SensitivityMeter::kTokens);
  return {{text.tokens.begin(), text.tokens.begin() + static_cast<std::ptrdiff_t>(count)}, text.window};
}

std::vector<int64_t> window_starts(int64_t tokens, int64_t window) {
  std::vector<int64_t> starts;
  for (int64_t at = 0; at < tokens; at += window) starts.push_back(at);
  starts.push_back(tokens);
  return starts;
}

// A matrix that no token reached has the mean of those that were measured.
void fill_unseen(std::vector<MatrixSensitivity>& measured, const std::vector<bool>& seen, size_t types) {
  const auto num_seen = std::ranges::count(seen, true);
  if (num_seen == 0) return;
  std::vector<double> mean(types, 0.0);
  for (size_t i = 0; i < measured.size(); ++i)
    for (size_t t = 0; t < types && seen[i]; ++t) mean[t] += measured[i].divergence[t] / static_cast<double>(num_seen);
  for (size_t i = 0; i < measured.size(); ++i)
    if (!seen[i]) measured[i].divergence = mean;
}

}  // namespace

SensitivityMeter::SensitivityMeter(const ModelSpec& spec, const std::string& model_dir, const CalibrationText& text,
                                   std::span<const WeightType> types, Divergence divergence, Arena& arena, Io& io,
                                   std::string directory, std::string settings)
    : spec_(spec),
      reader_(spec, model_dir, arena),
      types_(types),
      divergence_(std::move(divergence)),
      arena_(arena),
      io_(io),
      directory_(std::move(directory)),
      settings_(std::move(settings)),
      tokens_(beginning_of(text).tokens) {
  TERN_CHECK(!tokens_.empty() && text.window > 0 && !types.empty(), "sensitivity without tokens or types");
  if (spec.turns()) rope_ = rope_table(spec, text.window, text.window);
  rows_ = make_rows(tokens_, window_starts(static_cast<int64_t>(tokens_.size()), text.window),
                    spec.turns() ? &rope_ : nullptr);
}

// The unit's weights alone, beside what the reader holds once it goes on.
ModelWeights SensitivityMeter::weights_of(int unit) {
  ModelWeights weights = empty_weights(spec_);
  weights.units[static_cast<size_t>(unit)] = reader_.acquire(unit);
  reader_.release(unit);
  return weights;
}

Tensor SensitivityMeter::forward(int unit, const UnitWeights& weights, const Tensor& x_TD, InputObserver* observer) {
  return unit_forward(spec_, unit, weights, rows_, x_TD, nullptr, nullptr, {arena_, Multiply::exact, observer});
}

void SensitivityMeter::advance_to(int unit) {
  for (; next_ < unit; ++next_) {
    const WeightLease weights(reader_, next_);
    hidden_TD_ = forward(next_, *weights, hidden_TD_, nullptr);
  }
}

std::vector<MatrixSensitivity> SensitivityMeter::measure(int unit) {
  TERN_CHECK(unit + 1 < static_cast<int>(spec_.units.size()), "sensitivity of the head");
  ModelWeights weights = weights_of(unit);
  uint32_t crc = 0;
  bool any = false;
  for_each_linear(spec_, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (info.unit != unit || !has_codes(spec_, info)) return;
    const std::span<const float> numbers = dense_rows(linear).span<float>();
    if (!all_finite(numbers)) throw NotFinite("'{}' holds a number that is not finite", info.name);
    crc = crc32c(std::as_bytes(numbers), crc);
    any = true;
  });
  if (!any) return {};
  const std::string run = fmt::format("{}, weights {:08x}", settings_, crc);
  if (std::optional<std::vector<MatrixSensitivity>> there = read(unit, run)) return *std::move(there);
  if (last_TD_.empty()) last_TD_ = model_forward(spec_, reader_, rows_, nullptr, {arena_, Multiply::exact});
  advance_to(unit);
  std::vector<MatrixSensitivity> measured = probe(unit, weights);
  if (!measured.empty()) write(unit, run, measured);
  return measured;
}

std::vector<MatrixSensitivity> SensitivityMeter::probe(int unit, ModelWeights& weights) {
  struct Matrix {
    ParameterInfo info;
    Linear* linear;
  };
  std::vector<Matrix> matrices;
  for_each_linear(spec_, weights, [&](const ParameterInfo& info, Linear& linear) {
    const bool fills = std::ranges::all_of(types_, [&](WeightType type) { return fills_blocks(type, linear.in); });
    if (info.unit == unit && has_codes(spec_, info) && fills) matrices.push_back({info, &linear});
  });
  const UnitWeights& own = weights.units[static_cast<size_t>(unit)];
  InputMoments moments(arena_, [&](const Linear& linear) {
    return std::ranges::any_of(matrices, [&](const Matrix& m) { return m.linear == &linear; });
  });
  const Tensor after_TD = forward(unit, own, hidden_TD_, &moments);
  std::vector<MatrixSensitivity> measured;
  std::vector<bool> seen;
  std::vector<Probe> probes;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto& [info, linear] = matrices[i];
    measured.push_back({info.name, std::vector<double>(types_.size(), 0.0)});
    const std::vector<double>* of_inputs = moments.of(*linear);
    seen.push_back(of_inputs != nullptr);
    if (!of_inputs) continue;
    const std::vector<double> factor = error_factor(*of_inputs, linear->in);
    const std::span<float> numbers = dense_rows(*linear).span<float>();
    const std::vector<float> kept(numbers.begin(), numbers.end());
    for (size_t t = 0; t < types_.size(); ++t) {
      code_matrix(types_[t], info, *linear, factor);
      probes.push_back({i, t, forward(unit, own, hidden_TD_, nullptr)});
      std::ranges::copy(kept, numbers.begin());
      if (probes.size() == kProbesAtOnce) finish(unit, probes, measured);
    }
  }
  finish(unit, probes, measured);
  fill_unseen(measured, seen, types_.size());
  hidden_TD_ = after_TD, next_ = unit + 1;
  return measured;
}

// Runs the probes through the units behind `unit`, and reads the divergence of each at the head.
void SensitivityMeter::finish(int unit, std::vector<Probe>& probes, std::vector<MatrixSensitivity>& measured) {
  if (probes.empty()) return;
  for (int next = unit + 1; next + 1 < static_cast<int>(spec_.units.size()); ++next) {
    const WeightLease weights(reader_, next);
    for (Probe& p : probes) p.hidden_TD = forward(next, *weights, p.hidden_TD, nullptr);
  }
  for (const Probe& p : probes) measured[p.matrix].divergence[p.type] = divergence_of(p.hidden_TD);
  probes.clear();
}

double SensitivityMeter::divergence_of(const Tensor& hidden_TD) {
  const auto total = static_cast<int64_t>(tokens_.size());
  const Compute compute{arena_, Multiply::exact};
  double sum = 0;
  for (int64_t begin = 0; begin < total; begin += kLogitRows) {
    std::vector<int32_t> rows;
    for (int64_t r = begin; r < std::min(begin + kLogitRows, total); ++r) rows.push_back(static_cast<int32_t>(r));
    const Tensor want = head_logits(spec_, reader_, last_TD_, rows, compute),
                 got = head_logits(spec_, reader_, hidden_TD, rows, compute);
    const auto vocab = static_cast<size_t>(spec_.vocab);
    for (size_t i = 0; i < rows.size(); ++i)
      sum += divergence_(want.span<float>().subspan(i * vocab, vocab), got.span<float>().subspan(i * vocab, vocab));
  }
  return sum / static_cast<double>(total);
}

std::string SensitivityMeter::file_of(int unit) const {
  return join_path(directory_, fmt::format("sensitivity-{:05}.safetensors", unit));
}

std::optional<std::vector<MatrixSensitivity>> SensitivityMeter::read(int unit, const std::string& run) const {
  const std::string path = file_of(unit);
  if (!io_.stat(path)) return {};
  const Safetensors file(path);
  const auto at = file.metadata().find("run");
  if (at == file.metadata().end() || at->second != run)
    throw Error(ErrorKind::usage,
                "{}: measures that another run left there: of other weights, another text or other types; remove the "
                "directory, or name another --output or --sensitivity",
                path);
  std::vector<MatrixSensitivity> measured;
  for (const ParameterInfo& info : parameters(spec_)) {
    const std::optional<TensorView> view = info.unit == unit ? file.find(info.name) : std::nullopt;
    if (!view) continue;
    if (view->bytes.size() != types_.size() * sizeof(double))
      throw Error(ErrorKind::bad_file, "{}: measures of '{}' have another size; remove the directory", path, info.name);
    MatrixSensitivity of{info.name, std::vector<double>(types_.size())};
    std::memcpy(of.divergence.data(), view->bytes.data(), view->bytes.size());
    measured.push_back(std::move(of));
  }
  return measured;
}

void SensitivityMeter::write(int unit, const std::string& run, const std::vector<MatrixSensitivity>& measured) {
  make_dirs(io_, directory_);
  std::vector<TensorToWrite> tensors;
  for (const MatrixSensitivity& m : measured)
    tensors.push_back({.name = m.parameter,
                       .dtype = DType::f64,
                       .shape = {static_cast<int64_t>(m.divergence.size())},
                       .bytes = std::as_bytes(std::span(m.divergence)),
                       .produce = {}});
  write_safetensors(io_, file_of(unit), tensors, {{"run", run}});
}

int64_t SensitivityMeter::peak_bytes(const ModelSpec& spec, const CalibrationText& text) {
  const auto tokens = std::min<int64_t>(static_cast<int64_t>(text.tokens.size()), kTokens);
  const int64_t hidden = tokens * spec.width * size_of(DType::f32);
  // Hidden rows before a unit, behind it and behind the last; each probe's; the reader's unit beside the one at hand; a matrix
  // as it was; two tiles of logits and what a head needs for them.
  int64_t widest = 0;
  for (const ParameterInfo& info : parameters(spec)) widest = std::max(widest, 4 * info.shape.count());
  return LayerCoder::peak_bytes(spec, tokens, text.window) + UnitReader::peak_bytes(spec) + widest +
         (static_cast<int64_t>(kProbesAtOnce) + 3) * hidden + 3 * kLogitRows * 4 * (spec.vocab + spec.width);
}

}  // namespace tern
