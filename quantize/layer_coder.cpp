#include "quantize/layer_coder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/not_finite.h"
#include "model/visit_weights.h"
#include "quantize/coded_unit.h"
#include "quantize/gptq.h"
#include "quantize/input_moments.h"
#include "quantize/learned_tables.h"

namespace tern {
namespace {

constexpr int64_t kRows = 2048;  // of one pass

}  // namespace

CodedMatrix code_matrix(WeightType type, const ParameterInfo& info, const Linear& linear,
                        std::span<const double> factor, const GroupByte& byte) {
  const std::span<float> rows = dense_rows(linear).span<float>();
  const int64_t k = linear.in;
  CodedMatrix coded;
  if (table_bytes(type) == 0) {
    coded.rows = gptq_blocks(type, rows, linear.out, k, factor);
    return coded;
  }
  for (const TablePart& part : table_parts(info)) {
    const int64_t n = part.row_end - part.row_begin;
    const std::span<float> mine = rows.subspan(static_cast<size_t>(part.row_begin * k), static_cast<size_t>(n * k));
    const std::vector<int8_t> tables = learn_tables(type, mine, n, k, importance_of(factor, k), byte);
    const auto coder = [&] { return learned_coder(type, tables, byte); };
    const std::vector<std::byte> bytes = gptq_rows(type, coder, mine, n, k, factor);
    coded.rows.insert(coded.rows.end(), bytes.begin(), bytes.end());
    coded.tables.insert(coded.tables.end(), tables.begin(), tables.end());
  }
  if (byte != GroupByte{}) {
    const std::span<const std::byte> numbers = std::as_bytes(rows);
    coded.rows.assign(numbers.begin(), numbers.end());
  }
  return coded;
}

LayerCoder::LayerCoder(const ModelSpec& spec, const std::string& model_dir, const CalibrationText& calibration,
                       WeightType type, Arena& arena, CodeStore* store, LayerCoding how)
    : spec_(spec),
      reader_(spec, model_dir),
      calibration_(calibration),
      type_(type),
      how_(std::move(how)),
      arena_(arena),
      store_(store),
      weights_(empty_weights(spec)) {
  TERN_CHECK(how_.byte == GroupByte{} || (!store && how_.reconstruction.steps == 0),
             "LayerCoder: codes that nobody reads");
  TERN_CHECK(!calibration.tokens.empty() && calibration.window > 0, "calibration without tokens");
  if (spec.turns()) rope_ = rope_table(spec, calibration.window, calibration.window);
}

WeightType LayerCoder::type_of(const ParameterInfo& info) const {
  const auto single = how_.single.find(info.name);
  return single == how_.single.end() ? type_ : single->second;
}

uint32_t LayerCoder::load(int unit) {
  uint32_t crc = 0;
  const auto read = [&](const ParameterInfo& info, Tensor& t) {
    if (info.unit != unit) return;
    t = reader_.read(info, DType::f32, arena_);
    if (!all_finite(t.span<float>())) throw NotFinite("'{}' holds a number that is not finite", info.name);
    crc = crc32c(std::as_bytes(t.span<float>()), crc);
  };
  for_each_parameter(spec_, unit, weights_.units[static_cast<size_t>(unit)], read);
  for_each_fixed(spec_, weights_, read);  // what routers add to scores
  share_norms(spec_, weights_);
  return crc;
}

void LayerCoder::drop(int unit) {
  const auto drop = [&](const ParameterInfo& info, Tensor& t) {
    if (info.unit == unit) t = {};
  };
  for_each_parameter(spec_, unit, weights_.units[static_cast<size_t>(unit)], drop);
  for_each_fixed(spec_, weights_, drop);
  share_norms(spec_, weights_);
}

void LayerCoder::forward(int unit, Tensor& hidden, InputObserver* observer, bool keep) {
  const auto total = static_cast<int64_t>(calibration_.tokens.size());
  const int64_t windows = std::max<int64_t>(1, kRows / calibration_.window), step = windows * calibration_.window;
  const Compute compute{arena_, Multiply::exact, observer};
  const bool first = hidden.empty();
  Tensor after = first ? arena_.allocate(DType::f32, {total, spec_.width}, MemoryClass::activations) : hidden;
  for (int64_t begin = 0; begin < total; begin += step) {
    const int64_t end = std::min(begin + step, total);
    std::vector<int64_t> starts;
    for (int64_t at = begin; at < end; at += calibration_.window) starts.push_back(at - begin);
    starts.push_back(end - begin);
    const auto tokens =
        std::span(calibration_.tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const Rows rows = make_rows(tokens, starts, spec_.turns() ? &rope_ : nullptr);
    const Tensor y = unit_forward(spec_, unit, weights_.units[static_cast<size_t>(unit)], rows,
                                  first ? Tensor{} : hidden.rows_view(begin, end), nullptr, nullptr, compute);
    if (keep) std::memcpy(after.rows_view(begin, end).data(), y.data(), static_cast<size_t>(y.bytes()));
  }
  hidden = after;
}

UnitCodes LayerCoder::choose_codes(int unit) {
  std::map<const Linear*, ParameterInfo> linears;
  for_each_linear(spec_, weights_, [&](const ParameterInfo& info, Linear& linear) {
    if (info.unit == unit && has_codes(spec_, info) && fills_blocks(type_of(info), linear.in))
      linears.emplace(&linear, info);
  });
  if (linears.empty()) return {};
  InputMoments moments(arena_, [&](const Linear& linear) { return linears.contains(&linear); });
  forward(unit, hidden_, &moments, false);
  UnitCodes codes;
  for_each_linear(spec_, weights_, [&](const ParameterInfo& info, Linear& linear) {
    if (!linears.contains(&linear)) return;
    const std::vector<double>* seen = moments.of(linear);
    const std::vector<double> factor = seen ? error_factor(*seen, linear.in) : std::vector<double>{};
    codes.emplace(info.name, code_matrix(type_of(info), info, linear, factor, how_.byte));
  });
  if (how_.reconstruction.steps > 0)
    reconstruct(spec_, unit, weights_, codes, type_of_matrix(),
                {calibration_.tokens, calibration_.window, spec_.turns() ? &rope_ : nullptr, hidden_, plain_},
                how_.reconstruction, arena_);
  return codes;
}

void LayerCoder::code_unit(int unit) {
  const uint32_t crc = load(unit);
  if (how_.reconstruction.steps > 0) forward(unit, plain_, nullptr, true);
  std::optional<UnitCodes> done = store_ ? store_->read(unit, crc) : std::nullopt;
  if (done) {
    put_numbers(spec_, unit, weights_, *done, type_of_matrix(), store_->directory());
  } else {
    done = choose_codes(unit);
    if (store_) store_->write(unit, crc, *done);
  }
  coded_ = std::move(*done);
  forward(unit, hidden_, nullptr, true);
  drop(unit);
}

void LayerCoder::code_until(int unit) {
  for (; next_ <= unit; ++next_) code_unit(next_);
}

const CodedMatrix& LayerCoder::code(const ParameterInfo& info) {
  TERN_CHECK(store_ || info.unit >= next_ - 1, "LayerCoder: '{}' of a unit that is past", info.name);
  code_until(info.unit);
  return info.unit == next_ - 1 ? coded_.at(info.name) : store_->of(info.unit).at(info.name);
}

// Of a pass through a mixture: its tokens' rows, and those of every chosen expert one behind the other.
static int64_t mixture_bytes(const MoeSpec& u, int64_t rows) {
  const int64_t up = u.expert().gated ? 2 * u.hidden : u.hidden;
  const int64_t of_choice = 2 * u.width + up + u.hidden + 5;
  return 4 * rows * (3 * u.width + 2 * u.experts + u.top_k * of_choice + 3 * u.shared_hidden + 1);
}

int64_t LayerCoder::peak_bytes(const ModelSpec& spec, int64_t tokens, int64_t window, bool reconstructs) {
  const int64_t rows = std::min(tokens, std::max(kRows, window));
  int64_t unit_bytes = 0, widest = 0;
  std::map<int, int64_t> weights, moments;
  for (const ParameterInfo& info : parameters(spec)) {
    weights[info.unit] += info.shape.count() * 4;
    if (info.shape.rank != 2) continue;
    const int64_t in = info.shape[1], out = info.shape[0];
    if (has_codes(spec, info)) moments[info.unit] += 8 * in * in;
    widest = std::max(widest, 8 * 3 * in * in + 4 * in * in);  // the factor as it is made; a call's products
    if (has_codes(spec, info)) widest = std::max(widest, rows * (out + 2 * in + 2 * spec.width) * 4);
  }
  for (const Unit& unit : spec.units)
    if (const MoeSpec* u = moe_of(unit)) {
      const int64_t in = std::max({u->width, u->hidden, u->shared_hidden});
      widest = std::max(widest, mixture_bytes(*u, rows) + 4 * in * in);
    }
  ModelWeights fixed = empty_weights(spec);
  for_each_fixed(spec, fixed,
                 [&](const ParameterInfo& info, Tensor&) { weights[info.unit] += info.shape.count() * 4; });
  for (const auto& [unit, bytes] : weights) unit_bytes = std::max(unit_bytes, 2 * bytes + moments[unit]);
  if (reconstructs) widest = std::max(widest, reconstruction_bytes(spec, tokens, window));
  return (reconstructs ? 2 : 1) * tokens * spec.width * 4 + unit_bytes + widest;
}

}  // namespace tern
