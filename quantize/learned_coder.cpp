// Codes by learned tables: a row's scale leaves room for its largest number; a group takes the table, sign and scale that leave
// the least weighted error, of all that are not far from reaching its largest number. A row that is made of these tables already
// gets the scale it was made with, and each of its groups a byte that gives its numbers again.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/learned_codes.h"
#include "quantize/learned_tables.h"
#include "quantize/row_coder.h"

namespace tern {
namespace {

constexpr double kRoom = 1.15;                 // of a row's scale: what is fed back may enlarge numbers
constexpr double kLeast = 0.35, kMost = 1.25;  // of a group's largest number: how far a table may reach

class LearnedCoder : public RowCoder {
 public:
  LearnedCoder(WeightType type, std::span<const int8_t> tables, const GroupByte& says)
      : type_(type),
        says_(says),
        levels_(static_cast<size_t>(row_of(type).levels)),
        tables_(tables.begin(), tables.end()) {
    TERN_CHECK(tables.size() == says.num_tables() * levels_, "learned_coder: {} levels", tables.size());
    for (size_t t = 0; t < says.num_tables(); ++t)
      nearest_.push_back(nearest_codes(std::span(tables_).subspan(t * levels_, levels_)));
    const bool own = says.scale_bits() == 5;  // the format's are numbers in the source, not what a library gives
    for (int i = 0; i < 1 << says.scale_bits(); ++i)
      scales_.push_back(own ? kBlockScales[i]
                            : static_cast<float>(std::exp2(-static_cast<double>(i) / says.steps_of_octave())));
  }

  void begin_row(std::span<const float> row, std::span<const float>, std::string& out) override {
    const float most = *std::ranges::max_element(row, {}, [](float x) { return std::fabs(x); });
    made_of_tables_ = find_own_scale(row, std::fabs(most));
    if (!made_of_tables_) set_row_scale(std::fabs(static_cast<double>(most)) * kRoom / kTableMost);
    const bf16 held = to_bf16(row_scale_);
    char bytes[2];
    std::memcpy(bytes, &held, 2);
    out.append(bytes, 2);
  }

  void fit(std::span<const float> x, std::span<const float> importance) override {
    if (made_of_tables_ && find_own_byte(x)) return;
    uint8_t best = 0;
    const auto [first, last] = scales_to_try(x);
    double least = INFINITY;
    for (int i = first; i <= last; ++i)
      for (int t = 0; t < static_cast<int>(says_.num_tables()); ++t)
        for (int negative = 0; negative < (says_.has_sign ? 2 : 1); ++negative) {
          const auto byte = static_cast<uint8_t>(negative << 7 | i << says_.table_bits | t);
          const double e = error_of(byte, x, importance, least);
          if (e < least) least = e, best = byte;
        }
    set(best);
  }

  float code(size_t j, float x) override {
    codes_[j] = code_of(x);
    return scale_ * static_cast<float>(table_[codes_[j]]);
  }

  void end_group(std::string& out) override {
    const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
    const auto code = [&](size_t i) { return static_cast<unsigned>(codes_[i]); };
    put(byte_);
    if (type_ == WeightType::lc4) {
      for (size_t i = 0; i < 16; ++i) put(code(i) | code(16 + i) << 4);
      return;
    }
    for (size_t i = 0; i < 8; ++i)
      put((code(i) & 3) | (code(8 + i) & 3) << 2 | (code(16 + i) & 3) << 4 | (code(24 + i) & 3) << 6);
    if (type_ == WeightType::lc2) return;
    for (size_t byte = 0; byte < 4; ++byte) {
      unsigned bits = 0;
      for (size_t j = 0; j < 8; ++j) bits |= code(8 * byte + j) >> 2 << j;
      put(bits);
    }
  }

 private:
  // Rounded to bf16; 0 where a group's scale would no longer be a normal number.
  void set_row_scale(double scale) {
    row_scale_ = scale < 1e-36 ? 0 : to_float(to_bf16(static_cast<float>(scale)));
    row_inverse_ = row_scale_ == 0 ? 0 : 1 / row_scale_;
  }
  // The scale with which all groups are numbers of the tables, if there is one: of those that give the largest number.
  bool find_own_scale(std::span<const float> row, float most) {
    if (!(most > 0)) return false;
    for (const float g : scales_)
      for (const int8_t level : tables_) {
        if (level == 0) continue;
        const float steps = std::fabs(static_cast<float>(level));
        set_row_scale(static_cast<double>(most) / static_cast<double>(g * steps));
        if (row_scale_ * g * steps != most) continue;
        bool all = true;
        for (size_t first = 0; first < row.size() && all; first += 32) all = find_own_byte(row.subspan(first, 32));
        if (all) return true;
      }
    return false;
  }
  // A byte with which the numbers of a group are those of their codes.
  bool find_own_byte(std::span<const float> x) {
    for (int byte = 0; byte < 256; ++byte) {
      set(static_cast<uint8_t>(byte));
      const auto is_own = [&](float v) { return scale_ * static_cast<float>(table_[code_of(v)]) == v; };
      if (std::ranges::all_of(x, is_own)) return true;
    }
    return false;
  }
  std::pair<int, int> scales_to_try(std::span<const float> x) const {
    double most = 0;
    for (const float v : x) most = std::max(most, std::fabs(static_cast<double>(v)));
    const auto index = [&](double reach) {  // the scale whose tables reach so far
      const int last = static_cast<int>(scales_.size()) - 1;
      if (!(most > 0) || row_scale_ == 0) return last;
      const double steps =
          -says_.steps_of_octave() * std::log2(reach * most / kTableMost / static_cast<double>(row_scale_));
      return static_cast<int>(std::clamp(std::floor(steps), 0.0, static_cast<double>(last)));
    };
    return {index(kMost), index(kLeast)};
  }
  void set(uint8_t byte) {
    byte_ = byte;
    const size_t t = byte & (says_.num_tables() - 1);
    table_ = tables_.data() + t * levels_;
    places_ = nearest_[t].data();
    scale_ = row_scale_ * scales_[static_cast<size_t>(byte >> says_.table_bits) & (scales_.size() - 1)];
    if (says_.has_sign && byte & 0x80) scale_ = -scale_;
    inverse_ = scale_ == 0 ? 0 : 1 / scale_;
  }
  uint8_t code_of(float x) const { return places_[place_of(x * inverse_)]; }
  // In steps of the row's scale, as squares of small numbers vanish; as far as it is below `least`.
  double error_of(uint8_t byte, std::span<const float> x, std::span<const float> importance, double least) {
    set(byte);
    float error = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      const float d = (x[j] - scale_ * static_cast<float>(table_[code_of(x[j])])) * row_inverse_;
      error += importance[j] * d * d;
      if (j == 15 && static_cast<double>(error) >= least) return INFINITY;
    }
    return static_cast<double>(error);
  }

  WeightType type_;
  GroupByte says_;
  size_t levels_;
  std::vector<int8_t> tables_;
  std::vector<NearestCodes> nearest_;
  std::vector<float> scales_;
  float row_scale_ = 0, row_inverse_ = 0;
  bool made_of_tables_ = false;
  // Of the group at hand.
  uint8_t byte_ = 0, codes_[32] = {};
  const int8_t* table_ = nullptr;
  const uint8_t* places_ = nullptr;
  float scale_ = 0, inverse_ = 0;
};

}  // namespace

std::unique_ptr<RowCoder> learned_coder(WeightType type, std::span<const int8_t> tables, const GroupByte& says) {
  return std::make_unique<LearnedCoder>(type, tables, says);
}

}  // namespace tern
