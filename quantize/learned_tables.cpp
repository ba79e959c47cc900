#include "quantize/learned_tables.h"

#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

constexpr int kRounds = 16;
constexpr int64_t kMostGroups = 8192;
constexpr size_t kGroup = 32;

// Before anything is known: even steps, steps that are finer near zero, and two that reach further on one side.
std::vector<int8_t> first_tables(size_t levels, size_t num_tables) {
  constexpr std::pair<double, double> kShapes[] = {{1.0, 1.0}, {1.4, 1.0}, {1.2, 0.8}, {1.2, 0.55},
                                                   {1.8, 1.0}, {1.0, 0.8}, {1.6, 0.8}, {1.6, 0.55}};
  TERN_CHECK(num_tables <= std::size(kShapes), "{} tables", num_tables);
  std::vector<int8_t> tables;
  for (const auto& [power, positive] : std::span(kShapes).first(num_tables))
    for (size_t c = 0; c < levels; ++c) {
      const double u = (2.0 * static_cast<double>(c) + 1) / static_cast<double>(levels) - 1;
      const double reach = 1 - 1 / static_cast<double>(levels);
      const double v = std::copysign(std::pow(std::fabs(u) / reach, power), u) * (u > 0 ? positive : 1);
      tables.push_back(static_cast<int8_t>(std::lround(kTableMost * v)));
    }
  return tables;
}

struct Group {
  const float* x;
  const float* importance;
};
std::vector<Group> groups_of(std::span<const float> rows, int64_t n, int64_t k, std::span<const float> importance) {
  const int64_t in_row = k / static_cast<int64_t>(kGroup), total = n * in_row;
  std::vector<Group> groups;
  for (int64_t i = 0; i < std::min(total, kMostGroups); ++i) {
    // Spread over rows and columns alike: multiples of the golden ratio.
    const uint64_t turn = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
    const int64_t g =
        total <= kMostGroups
            ? i
            : static_cast<int64_t>(static_cast<double>(turn >> 11) * 0x1p-53 * static_cast<double>(total));
    const int64_t column = g % in_row * static_cast<int64_t>(kGroup);
    groups.push_back({rows.data() + g / in_row * k + column, importance.data() + column});
  }
  return groups;
}

struct Choice {
  size_t table = 0;
  float scale = 0;
};

class Learner {
 public:
  Learner(size_t levels, const GroupByte& byte)
      : levels_(levels), byte_(byte), tables_(first_tables(levels, byte.num_tables())), nearest_(byte.num_tables()) {
    prepare();
  }

  void round(const std::vector<Group>& groups) {
    std::vector<Choice> choices(groups.size());
#pragma omp parallel for schedule(static)
    for (size_t g = 0; g < groups.size(); ++g) choices[g] = choose(groups[g]);
    std::vector<double> value(tables_.size()), weight(tables_.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      const Choice& choice = choices[g];
      if (choice.scale == 0) continue;
      for (size_t j = 0; j < kGroup; ++j) {
        const float x = groups[g].x[j];
        const size_t at = choice.table * levels_ + code_of(choice, x);
        const double s = static_cast<double>(choice.scale), h = static_cast<double>(groups[g].importance[j]);
        value[at] += h * s * static_cast<double>(x), weight[at] += h * s * s;
      }
    }
    for (size_t t = 0; t < byte_.num_tables(); ++t) take(t, value, weight);
    prepare();
  }
  std::vector<int8_t> tables() const { return tables_; }

 private:
  void prepare() {
    for (size_t t = 0; t < byte_.num_tables(); ++t)
      nearest_[t] = nearest_codes(std::span(tables_).subspan(t * levels_, levels_));
  }
  // Levels that nobody chose stay where they are.
  void take(size_t t, const std::vector<double>& value, const std::vector<double>& weight) {
    std::vector<double> levels(levels_);
    double most = 0;
    for (size_t c = 0; c < levels_; ++c) {
      const size_t at = t * levels_ + c;
      levels[c] = weight[at] > 0 ? value[at] / weight[at] : static_cast<double>(tables_[at]);
      most = std::max(most, std::fabs(levels[c]));
    }
    if (!(most > 0)) return;
    for (size_t c = 0; c < levels_; ++c)
      tables_[t * levels_ + c] = static_cast<int8_t>(std::lround(levels[c] / most * kTableMost));
    std::sort(tables_.begin() + static_cast<std::ptrdiff_t>(t * levels_),
              tables_.begin() + static_cast<std::ptrdiff_t>((t + 1) * levels_));
  }
  size_t code_of(const Choice& choice, float x) const {
    return nearest_[choice.table][static_cast<size_t>(place_of(x / choice.scale))];
  }

  // Σ importance·error² of numbers in a group's own measure; and the scale that fits the chosen codes best.
  float error_of(const Choice& choice, const float* numbers, const float* importance, float* fitted) const {
    const float inverse = 1 / choice.scale;
    const int8_t* table = tables_.data() + choice.table * levels_;
    const uint8_t* nearest = nearest_[choice.table].data();
    float error = 0, xt = 0, tt = 0;
    for (size_t j = 0; j < kGroup; ++j) {
      const float x = numbers[j], h = importance[j];
      const auto v = static_cast<float>(table[nearest[place_of(x * inverse)]]);
      const float d = x - choice.scale * v;
      error += h * d * d, xt += h * x * v, tt += h * v * v;
    }
    *fitted = tt > 0 ? xt / tt : choice.scale;
    return error;
  }
  Choice choose(const Group& group) const {
    float most = 0;
    for (size_t j = 0; j < kGroup; ++j) most = std::max(most, std::fabs(group.x[j]));
    Choice best;
    if (!(most > 0)) return best;
    float numbers[kGroup];  // against the largest: squares of small ones vanish
    for (size_t j = 0; j < kGroup; ++j) numbers[j] = group.x[j] / most;
    const auto whole = [&](Choice choice) { return Choice{choice.table, choice.scale * most}; };
    float least = INFINITY, best_fitted = 0;
    for (size_t t = 0; t < byte_.num_tables(); ++t)
      for (const float sign : std::span(kSigns).first(byte_.has_sign ? 2 : 1))
        for (const float part : {1.15f, 1.05f, 0.96f, 0.88f, 0.8f, 0.72f, 0.64f, 0.56f, 0.48f}) {
          const Choice choice{t, sign * part / static_cast<float>(kTableMost)};
          float fitted = 0;
          const float error = error_of(choice, numbers, group.importance, &fitted);
          if (error < least) least = error, best = choice, best_fitted = fitted;
        }
    const Choice refined{best.table, best_fitted};
    float again = 0;
    const bool possible = byte_.has_sign ? best_fitted != 0 : best_fitted > 0;
    const bool finer = possible && error_of(refined, numbers, group.importance, &again) < least;
    return whole(finer ? refined : best);
  }

  static constexpr float kSigns[] = {1, -1};
  size_t levels_;
  GroupByte byte_;
  std::vector<int8_t> tables_;
  std::vector<NearestCodes> nearest_;
};

}  // namespace

NearestCodes nearest_codes(std::span<const int8_t> table) {
  NearestCodes codes;
  size_t code = 0;
  for (size_t place = 0; place < codes.size(); ++place) {
    const double middle = static_cast<double>(place) / 2 - 128 + 0.25;
    while (code + 1 < table.size() && std::fabs(table[code + 1] - middle) < std::fabs(table[code] - middle)) ++code;
    codes[place] = static_cast<uint8_t>(code);
  }
  return codes;
}

std::vector<int8_t> learn_tables(WeightType type, std::span<const float> rows, int64_t n, int64_t k,
                                 std::span<const float> importance, const GroupByte& byte) {
  TERN_CHECK(row_of(type).levels > 0 && static_cast<int64_t>(rows.size()) == n * k && k % 32 == 0 &&
                 static_cast<int64_t>(importance.size()) == k,
             "learn_tables: {} × {} of {}", n, k, name_of(type));
  const std::vector<Group> groups = groups_of(rows, n, k, importance);
  Learner learner(static_cast<size_t>(row_of(type).levels), byte);
  for (int round = 0; round < kRounds; ++round) learner.round(groups);
  return learner.tables();
}

}  // namespace tern
