#include "quantize/reconstruction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/learned_codes.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/unit.h"
#include "quantize/learned_tables.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

constexpr int64_t kRowsOfStep = 2048;
constexpr int64_t kInBlock = 32;
constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8;

// The codes of a block, in the order of its numbers (layouts: kernels/cpu/learned_codes.h).
void unpack_codes(WeightType type, const uint8_t* block, uint8_t* codes) {
  const uint8_t* packed = block + 1;
  for (int i = 0; i < kInBlock; ++i) {
    if (type == WeightType::lc4)
      codes[i] = packed[i % 16] >> (i / 16 * 4) & 15;
    else
      codes[i] = packed[i % 8] >> (i / 8 * 2) & 3;
    if (type == WeightType::lc3) codes[i] |= static_cast<uint8_t>((packed[8 + i / 8] >> i % 8 & 1) << 2);
  }
}

// Rows of a matrix that share tables, and where their parameters stand among the unit's: first the levels, then the rows'
// factors.
struct TrainedPart {
  WeightType type;
  int64_t n, k;
  uint8_t* rows;  // n coded rows
  int8_t* tables;
  const float* gradient;  // (n, k)
  std::vector<float> first_scales;
  size_t first;  // parameter

  size_t num_levels() const { return static_cast<size_t>(table_bytes(type)); }
  size_t num_parameters() const { return num_levels() + static_cast<size_t>(n); }
  uint8_t* row(int64_t r) const { return rows + r * stored_bytes(type, 1, k); }
};

float scale_at(const uint8_t* row) {
  bf16 held;
  std::memcpy(&held, row, sizeof held);
  return to_float(held);
}

// A parameter of a level is its part of kTableMost, of a row its factor beside the first scale.
void read_parameters(const TrainedPart& part, std::span<float> parameters) {
  for (size_t i = 0; i < part.num_levels(); ++i)
    parameters[part.first + i] = static_cast<float>(part.tables[i] / kTableMost);
  for (size_t r = 0; r < part.first_scales.size(); ++r) parameters[part.first + part.num_levels() + r] = 1;
}
void write_parameters(const TrainedPart& part, std::span<const float> parameters) {
  const auto levels = static_cast<size_t>(row_of(part.type).levels);
  for (size_t i = 0; i < part.num_levels(); ++i) {
    const double level = std::clamp(std::nearbyint(static_cast<double>(parameters[part.first + i]) * kTableMost),
                                    -kTableMost, kTableMost);
    part.tables[i] = static_cast<int8_t>(level);
    if (i % levels > 0) part.tables[i] = std::max(part.tables[i], part.tables[i - 1]);
  }
  for (int64_t r = 0; r < part.n; ++r) {
    const auto at = static_cast<size_t>(r);
    const bf16 scale = to_bf16(part.first_scales[at] * parameters[part.first + part.num_levels() + at]);
    std::memcpy(part.row(r), &scale, sizeof scale);
  }
}

// Gradients of the levels and the rows' factors, from those of the numbers. Sums of levels run over 64 rows, then over these sums, so
// that threads change no bit.
void add_gradients(const TrainedPart& part, std::span<float> gradients) {
  constexpr int64_t kRows = 64;
  const int64_t row_header = row_of(part.type).row_header_bytes, block_bytes = row_of(part.type).block_bytes;
  const auto levels = static_cast<size_t>(row_of(part.type).levels);
  const int64_t stretches = (part.n + kRows - 1) / kRows;
  std::vector<double> sums(static_cast<size_t>(stretches) * part.num_levels());
#pragma omp parallel for schedule(static)
  for (int64_t stretch = 0; stretch < stretches; ++stretch) {
    double* of_levels = sums.data() + static_cast<size_t>(stretch) * part.num_levels();
    for (int64_t r = stretch * kRows; r < std::min(part.n, (stretch + 1) * kRows); ++r) {
      const uint8_t* block = part.row(r) + row_header;
      const auto scale = static_cast<double>(scale_at(part.row(r)));
      double of_row = 0;
      for (int64_t c = 0; c < part.k; c += kInBlock, block += block_bytes) {
        const float* g = part.gradient + r * part.k + c;
        const size_t table = (block[0] & 3u) * levels;
        const double of_block = static_cast<double>(kBlockScales[block[0] >> 2 & 31]) * (block[0] & 0x80 ? -1 : 1);
        uint8_t codes[kInBlock];
        unpack_codes(part.type, block, codes);
        for (int j = 0; j < kInBlock; ++j) {
          const double d = static_cast<double>(g[j]) * of_block;
          of_row += d * part.tables[table + codes[j]];
          of_levels[table + codes[j]] += d * scale;
        }
      }
      const auto at = static_cast<size_t>(r);
      gradients[part.first + part.num_levels() + at] =
          static_cast<float>(of_row * static_cast<double>(part.first_scales[at]));
    }
  }
  for (size_t i = 0; i < part.num_levels(); ++i) {
    double sum = 0;
    for (size_t s = 0; s < static_cast<size_t>(stretches); ++s) sum += sums[s * part.num_levels() + i];
    gradients[part.first + i] = static_cast<float>(sum * kTableMost);
  }
}

int64_t windows_of_step(int64_t window) { return (kRowsOfStep + window - 1) / window; }

// Some windows' rows, one behind the other.
struct ExampleBatch {
  std::vector<int32_t> tokens;
  Rows rows;
  Tensor x_TD, target_TD;
};

class ReconstructedUnit {
 public:
  ReconstructedUnit(const ModelSpec& spec, int unit, ModelWeights& weights, UnitCodes& codes,
                    const TypeOfMatrix& type_of, const UnitExamples& examples, Arena& arena)
      : spec_(spec),
        unit_(unit),
        weights_(weights),
        codes_(codes),
        type_of_(type_of),
        examples_(examples),
        arena_(arena) {
    std::vector<bool> elsewhere(spec.units.size(), true);
    elsewhere[static_cast<size_t>(unit)] = false;
    gradients_ = allocate_gradients(spec, DType::f32, arena, {}, elsewhere);
    for_each_linear(spec, gradients_, [&](const ParameterInfo& info, Linear& gradient) {
      const auto at = codes.find(info.name);
      if (info.unit == unit && at != codes.end() && table_bytes(type_of(info)) > 0)
        add_parts(info, at->second, type_of(info), dense_rows(gradient));
    });
    size_t count = 0;
    for (TrainedPart& part : parts_) part.first = count, count += part.num_parameters();
    for (std::vector<float>* v : {&parameters_, &of_parameters_, &first_moments_, &second_moments_}) v->resize(count);
    for (const TrainedPart& part : parts_) read_parameters(part, parameters_);
    contribution_ = sum_of_squares_between(examples.target_TD, examples.x_TD);
  }
  bool has_tables() const { return !parts_.empty() && contribution_ > 0; }

  /// Of all windows, with the codes as they are.
  double error() {
    put();
    double sum = 0;
    for (int64_t first = 0; first < num_windows(); first += windows_of_step(examples_.window)) {
      std::vector<int64_t> windows;
      for (int64_t w = first; w < std::min(num_windows(), first + windows_of_step(examples_.window)); ++w)
        windows.push_back(w);
      const ExampleBatch batch = batch_of(windows);
      sum += sum_of_squares_between(forward(batch, nullptr), batch.target_TD);
    }
    return sum / contribution_;
  }

  /// False: gradients are no numbers, and nothing was changed.
  bool step(int64_t step, const Reconstruction& how) {
    const ExampleBatch batch = batch_of(windows_of(step));
    put();
    UnitSaved saved = nothing_saved(spec_.units[static_cast<size_t>(unit_)]);
    Tensor dy = forward(batch, &saved);
    const std::span<float> y = dy.span<float>(), target = batch.target_TD.span<float>();
    const double share = static_cast<double>(examples_.tokens.size()) / static_cast<double>(batch.tokens.size());
    const auto factor = static_cast<float>(2 * share / contribution_);
    for (size_t i = 0; i < y.size(); ++i) y[i] = factor * (y[i] - target[i]);
    const Compute compute{arena_, Multiply::exact};
    const UnitWeights& weights = weights_.units[static_cast<size_t>(unit_)];
    UnitWeights& gradients = gradients_.units[static_cast<size_t>(unit_)];
    for_each_parameter(spec_, unit_, gradients,
                       [](const ParameterInfo&, Tensor& t) { std::ranges::fill(t.span<float>(), 0.0f); });
    unit_backward_input(spec_, unit_, weights, batch.rows, dy, saved, compute);
    unit_backward_weight(spec_, unit_, weights, batch.rows, dy, saved, gradients, compute);
    for (const TrainedPart& part : parts_) add_gradients(part, of_parameters_);
    if (!all_finite(of_parameters_)) return false;
    adamw_step(
        {.learning_rate = how.learning_rate * static_cast<double>(how.steps - step) / static_cast<double>(how.steps),
         .beta1 = kBeta1,
         .beta2 = kBeta2,
         .epsilon = kEpsilon,
         .weight_decay = 0,
         .step = step + 1,
         .gradient_scale = 1},
        of_parameters_, parameters_, first_moments_, second_moments_, {});
    if (!all_finite(parameters_)) return false;
    for (const TrainedPart& part : parts_) write_parameters(part, parameters_);
    return true;
  }
  void put() { put_numbers(spec_, unit_, weights_, codes_, type_of_, {}); }

 private:
  void add_parts(const ParameterInfo& info, CodedMatrix& coded, WeightType type, const Tensor& gradient) {
    const int64_t k = info.shape[1], row_bytes = stored_bytes(type, 1, k);
    const std::vector<TablePart> parts = table_parts(info);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto [begin, end] = parts[i];
      TrainedPart part{.type = type,
                       .n = end - begin,
                       .k = k,
                       .rows = reinterpret_cast<uint8_t*>(coded.rows.data()) + begin * row_bytes,
                       .tables = coded.tables.data() + static_cast<int64_t>(i) * table_bytes(type),
                       .gradient = gradient.span<float>().data() + begin * k,
                       .first_scales = {},
                       .first = 0};
      for (int64_t r = 0; r < part.n; ++r) part.first_scales.push_back(scale_at(part.row(r)));
      parts_.push_back(std::move(part));
    }
  }
  int64_t num_windows() const {
    return (static_cast<int64_t>(examples_.tokens.size()) + examples_.window - 1) / examples_.window;
  }
  std::vector<int64_t> windows_of(int64_t step) const {
    const int64_t each = std::min(windows_of_step(examples_.window), num_windows());
    std::vector<int64_t> windows;
    for (int64_t i = 0; i < each; ++i) {
      const int64_t place = step * each + i;
      const RngKey key{static_cast<uint64_t>(place / num_windows()),
                       hash_name("reconstruction") + static_cast<uint64_t>(unit_)};
      windows.push_back(static_cast<int64_t>(
          random_permutation(key, static_cast<uint64_t>(place % num_windows()), static_cast<uint64_t>(num_windows()))));
    }
    return windows;
  }
  ExampleBatch batch_of(std::span<const int64_t> windows) {
    ExampleBatch batch;
    std::vector<int64_t> starts = {0};
    for (const int64_t w : windows) {
      const auto [begin, end] = bounds(w);
      batch.tokens.insert(batch.tokens.end(), examples_.tokens.begin() + begin, examples_.tokens.begin() + end);
      starts.push_back(static_cast<int64_t>(batch.tokens.size()));
    }
    batch.rows = make_rows(batch.tokens, starts, examples_.rope);
    batch.x_TD = gathered(examples_.x_TD, windows, starts.back());
    batch.target_TD = gathered(examples_.target_TD, windows, starts.back());
    return batch;
  }
  std::pair<int64_t, int64_t> bounds(int64_t w) const {
    return {w * examples_.window, std::min((w + 1) * examples_.window, static_cast<int64_t>(examples_.tokens.size()))};
  }
  Tensor gathered(const Tensor& from, std::span<const int64_t> windows, int64_t rows) {
    Tensor to = arena_.allocate(DType::f32, {rows, spec_.width}, MemoryClass::activations);
    int64_t at = 0;
    for (const int64_t w : windows) {
      const auto [begin, end] = bounds(w);
      const Tensor part = from.rows_view(begin, end);
      std::memcpy(to.rows_view(at, at + end - begin).data(), part.data(), static_cast<size_t>(part.bytes()));
      at += end - begin;
    }
    return to;
  }
  Tensor forward(const ExampleBatch& batch, UnitSaved* saved) {
    return unit_forward(spec_, unit_, weights_.units[static_cast<size_t>(unit_)], batch.rows, batch.x_TD, saved,
                        nullptr, Compute{arena_, Multiply::exact});
  }
  static double sum_of_squares_between(const Tensor& a, const Tensor& b) {
    double sum = 0;
    const std::span<const float> x = a.span<float>(), y = b.span<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      sum += d * d;
    }
    return sum;
  }

  const ModelSpec& spec_;
  int unit_;
  ModelWeights& weights_;
  UnitCodes& codes_;
  const TypeOfMatrix& type_of_;
  const UnitExamples& examples_;
  Arena& arena_;
  ModelWeights gradients_;
  std::vector<TrainedPart> parts_;
  std::vector<float> parameters_, of_parameters_, first_moments_, second_moments_;
  double contribution_ = 0;
};

}  // namespace

ReconstructionErrors reconstruct(const ModelSpec& spec, int unit, ModelWeights& weights, UnitCodes& codes,
                                 const TypeOfMatrix& type_of, const UnitExamples& examples, const Reconstruction& how,
                                 Arena& arena) {
  ReconstructedUnit trained(spec, unit, weights, codes, type_of, examples, arena);
  if (!trained.has_tables() || how.steps == 0) return {};
  const UnitCodes chosen = codes;
  ReconstructionErrors errors{.before = trained.error()};
  for (int64_t step = 0; step < how.steps && trained.step(step, how); ++step) {}
  errors.after = trained.error();
  if (errors.after < errors.before) return errors;
  for (auto& [name, matrix] : codes) {  // in their places: what is trained points to them
    std::ranges::copy(chosen.at(name).rows, matrix.rows.begin());
    std::ranges::copy(chosen.at(name).tables, matrix.tables.begin());
  }
  trained.put();
  return {errors.before, errors.before};
}

int64_t reconstruction_bytes(const ModelSpec& spec, int64_t tokens, int64_t window) {
  const int64_t length = std::min(window, tokens), rows = std::min(tokens, windows_of_step(window) * window),
                pairs = rows / length * (length * (length + 1) / 2);
  int64_t most = 0;
  for (const Unit& unit : spec.units) {
    if (&unit == &spec.units.front() || &unit == &spec.units.back()) continue;
    const UnitCost cost = unit_cost(unit, {.tokens = rows,
                                           .attended_pairs = pairs,
                                           .dtype = DType::f32,
                                           .scratch = scratch_bytes(Multiply::exact, DType::f32)});
    const int64_t working = std::max({cost.forward_workspace, cost.unsaved_workspace, cost.backward_input_workspace,
                                      cost.backward_weight_workspace});
    most = std::max(most, cost.gradient_bytes + cost.saved_bytes + cost.left_bytes + working + cost.output_bytes);
  }
  return most + 4 * rows * spec.width * 4;  // x, the target, and the gradients of both sides
}

}  // namespace tern
