#include "quantize/layer_coder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/cpu/vector.h"
#include "model/not_finite.h"
#include "quantize/gptq.h"
#include "quantize/input_moments.h"

namespace tern {
namespace {

constexpr int64_t kRows = 2048;  // of one pass

bool has_codes(const ModelSpec& spec, int unit) {
  const auto& s = spec.units[static_cast<size_t>(unit)].spec;
  return !std::holds_alternative<EmbedSpec>(s) && !std::holds_alternative<HeadSpec>(s);
}

}  // namespace

LayerCoder::LayerCoder(const ModelSpec& spec, const std::string& model_dir, const CalibrationText& calibration,
                       WeightType type, Arena& arena)
    : spec_(spec),
      reader_(spec, model_dir),
      calibration_(calibration),
      type_(type),
      arena_(arena),
      weights_(empty_weights(spec)) {
  TERN_CHECK(!calibration.tokens.empty() && calibration.window > 0, "calibration without tokens");
  if (spec.turns()) rope_ = rope_table(spec, calibration.window, calibration.window);
}

void LayerCoder::load(int unit) {
  for_each_parameter(spec_, unit, weights_.units[static_cast<size_t>(unit)], [&](const ParameterInfo& info, Tensor& t) {
    t = reader_.read(info, DType::f32, arena_);
    if (!all_finite(t.span<float>())) throw NotFinite("'{}' holds a number that is not finite", info.name);
  });
}

void LayerCoder::drop(int unit) {
  for_each_parameter(spec_, unit, weights_.units[static_cast<size_t>(unit)],
                     [&](const ParameterInfo&, Tensor& t) { t = {}; });
}

void LayerCoder::forward(int unit, InputObserver* observer, bool keep) {
  const auto total = static_cast<int64_t>(calibration_.tokens.size());
  const int64_t windows = std::max<int64_t>(1, kRows / calibration_.window), step = windows * calibration_.window;
  const Compute compute{arena_, Multiply::exact, observer};
  const bool first = hidden_.empty();
  Tensor after = first ? arena_.allocate(DType::f32, {total, spec_.width}, MemoryClass::activations) : hidden_;
  for (int64_t begin = 0; begin < total; begin += step) {
    const int64_t end = std::min(begin + step, total);
    std::vector<int64_t> starts;
    for (int64_t at = begin; at < end; at += calibration_.window) starts.push_back(at - begin);
    starts.push_back(end - begin);
    const auto tokens =
        std::span(calibration_.tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const Rows rows = make_rows(tokens, starts, spec_.turns() ? &rope_ : nullptr);
    const Tensor y = unit_forward(spec_, unit, weights_.units[static_cast<size_t>(unit)], rows,
                                  first ? Tensor{} : hidden_.rows_view(begin, end), nullptr, nullptr, compute);
    if (keep) std::memcpy(after.rows_view(begin, end).data(), y.data(), static_cast<size_t>(y.bytes()));
  }
  hidden_ = after;
}

void LayerCoder::code_unit(int unit) {
  load(unit);
  coded_.clear();
  if (has_codes(spec_, unit)) {
    std::map<const Linear*, ParameterInfo> linears;
    for_each_linear(spec_, weights_, [&](const ParameterInfo& info, Linear& linear) {
      if (info.unit == unit && fills_blocks(type_, linear.in)) linears.emplace(&linear, info);
    });
    InputMoments moments(arena_, [&](const Linear& linear) { return linears.contains(&linear); });
    forward(unit, &moments, false);
    for_each_linear(spec_, weights_, [&](const ParameterInfo& info, Linear& linear) {
      if (!linears.contains(&linear)) return;
      const std::vector<double>* seen = moments.of(linear);
      const std::vector<double> factor = seen ? error_factor(*seen, linear.in) : std::vector<double>{};
      coded_.emplace(info.name, gptq_blocks(type_, dense_rows(linear).span<float>(), linear.out, linear.in, factor));
    });
  }
  forward(unit, nullptr, true);
  drop(unit);
}

std::span<const std::byte> LayerCoder::code(const ParameterInfo& info) {
  TERN_CHECK(info.unit >= next_ - 1, "LayerCoder: '{}' of a unit that is past", info.name);
  for (; next_ <= info.unit; ++next_) code_unit(next_);
  return coded_.at(info.name);
}

int64_t LayerCoder::peak_bytes(const ModelSpec& spec, int64_t tokens, int64_t window) {
  const int64_t rows = std::min(tokens, std::max(kRows, window));
  int64_t unit_bytes = 0, widest = 0;
  std::map<int, int64_t> weights, moments;
  for (const ParameterInfo& info : parameters(spec)) {
    weights[info.unit] += info.shape.count() * 4;
    if (info.shape.rank != 2) continue;
    const int64_t in = info.shape[1], out = info.shape[0];
    if (has_codes(spec, info.unit)) moments[info.unit] += 8 * in * in;
    widest = std::max(widest, 8 * 3 * in * in + 4 * in * in);  // the factor as it is made; a call's products
    if (has_codes(spec, info.unit)) widest = std::max(widest, rows * (out + 2 * in + 2 * spec.width) * 4);
  }
  for (const auto& [unit, bytes] : weights) unit_bytes = std::max(unit_bytes, 2 * bytes + moments[unit]);
  return tokens * spec.width * 4 + unit_bytes + widest;
}

}  // namespace tern
