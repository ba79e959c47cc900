// GGUF's types of 256 numbers: Q4_K and Q5_K have eight parts of 32, each with a scale and a minimum of six bits; Q6_K has
// sixteen parts of 16, each with a scale of eight bits and a sign. What the bits count stands in f16 for all parts. First each part is
// fitted alone, then the whole scales are chosen, and fitted to the codes; a part is fitted once more when its first
// number comes, if errors of the parts before it have moved its numbers.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "quantize/row_coder.h"

namespace tern {
namespace {

constexpr size_t kSuper = 256;
constexpr int kSearched = 24;  // reaches that are tried for a part

// What a type's parts look like. x = (d·scale)·(code − zero) − dmin·minimum.
struct KLayout {
  size_t part;                  // numbers of a part
  int zero, most;               // codes are 0 to `most`
  int least_scale, most_scale;  // of a part, as whole numbers; minimums are 0 to most_scale
  bool has_min;
};
KLayout layout_of(WeightType type) {
  if (type == WeightType::q6_k) return {16, 32, 63, -128, 127, false};
  return {32, 0, type == WeightType::q5_k ? 31 : 15, 0, 63, true};
}

float as_f16(double x) { return to_float(to_f16(static_cast<float>(std::clamp(x, -65504.0, 65504.0)))); }

// A part's scale and what is subtracted, as numbers.
struct Line {
  float scale = 0, min = 0;
};

int code_on(const Line& line, const KLayout& layout, float x) {
  if (line.scale == 0) return layout.zero;
  const float place = (x + line.min) / line.scale + static_cast<float>(layout.zero);
  return static_cast<int>(std::clamp(std::nearbyint(place), 0.0f, static_cast<float>(layout.most)));
}
float number_on(const Line& line, const KLayout& layout, int code) {
  const float product = line.scale * static_cast<float>(code - layout.zero);
  return layout.has_min ? product - line.min : product;
}

struct Part {
  std::span<const float> x, importance;
};

double error_on(const Line& line, const KLayout& layout, const Part& part) {
  double error = 0;
  for (size_t i = 0; i < part.x.size(); ++i) {
    const double d =
        static_cast<double>(part.x[i]) - static_cast<double>(number_on(line, layout, code_on(line, layout, part.x[i])));
    error += static_cast<double>(part.importance[i]) * d * d;
  }
  return error;
}

// The line that fits the codes which `line` gives best; a minimum below 0 cannot be, and becomes 0.
Line fitted_to_codes(const Line& line, const KLayout& layout, const Part& part) {
  double w = 0, q = 0, qq = 0, y = 0, qy = 0;
  for (size_t i = 0; i < part.x.size(); ++i) {
    const double h = static_cast<double>(part.importance[i]), value = static_cast<double>(part.x[i]),
                 code = code_on(line, layout, part.x[i]) - layout.zero;
    w += h, q += h * code, qq += h * code * code, y += h * value, qy += h * code * value;
  }
  const double det = w * qq - q * q;
  if (layout.has_min && det > 1e-12 * w * qq) {
    const double scale = (w * qy - q * y) / det, min = (scale * q - y) / w;
    if (scale > 0 && min >= 0) return {static_cast<float>(scale), static_cast<float>(min)};
  }
  return qq > 0 && (!layout.has_min || qy > 0) ? Line{static_cast<float>(qy / qq), 0} : line;
}

// The best line for a part if its scale and minimum could be any numbers.
Line free_line(const KLayout& layout, const Part& part) {
  const auto [low, high] = std::ranges::minmax(part.x);
  const float most = *std::ranges::max_element(part.x, {}, [](float v) { return std::fabs(v); });
  const double lowest = std::min(static_cast<double>(low), 0.0), middle = (lowest + static_cast<double>(high)) / 2;
  Line best;
  double least = INFINITY;
  const auto consider = [&](const Line& line) {
    const double e = error_on(line, layout, part);
    if (e < least) least = e, best = line;
  };
  for (int step = 0; step <= kSearched; ++step) {
    const double share = step == 0 ? 1 : 0.7 + 0.4 * step / kSearched;
    Line line;
    if (layout.has_min) {
      const double reach = (static_cast<double>(high) - lowest) / 2 * share;
      if (!(reach > 0)) continue;
      line = {static_cast<float>(2 * reach / layout.most), static_cast<float>(std::max(0.0, reach - middle))};
    } else {
      line = {static_cast<float>(static_cast<double>(most) / -layout.zero * share), 0};
    }
    consider(line);
    consider(fitted_to_codes(line, layout, part));
  }
  if (least == INFINITY) best = {0, static_cast<float>(-lowest)};  // all numbers are one
  return best;
}

class KCoder : public RowCoder {
 public:
  explicit KCoder(WeightType type) : type_(type), layout_(layout_of(type)) {}

  void begin_row(std::span<const float>, std::span<const float>, std::string&) override {}

  void fit(std::span<const float> x, std::span<const float> importance) override {
    x_ = x, importance_ = importance;
    std::ranges::copy(x, fitted_.begin());
    std::array<Line, 16> lines;
    double most_scale = 0, most_min = 0;
    for (size_t p = 0; p < parts(); ++p) {
      lines[p] = free_line(layout_, part(p));
      if (std::fabs(static_cast<double>(lines[p].scale)) > std::fabs(most_scale)) most_scale = lines[p].scale;
      most_min = std::max(most_min, static_cast<double>(lines[p].min));
    }
    // A scale of Q6_K may have a sign: the largest gets the side that reaches one step further.
    d_ = as_f16(layout_.has_min ? most_scale / layout_.most_scale : most_scale / layout_.least_scale);
    dmin_ = as_f16(most_min / layout_.most_scale);
    for (size_t p = 0; p < parts(); ++p) choose_whole(p, lines[p]);
    fit_to_parts(lines);
  }

  float code(size_t j, float x) override {
    const size_t p = j / layout_.part;
    if (j % layout_.part == 0 && !std::ranges::equal(part(p).x, std::span(fitted_).subspan(j, layout_.part)))
      choose_whole(p, free_line(layout_, part(p)));
    const Line line = line_of(p);
    codes_[j] = static_cast<uint8_t>(code_on(line, layout_, x));
    return number_on(line, layout_, codes_[j]);
  }

  void end_group(std::string& out) override { type_ == WeightType::q6_k ? append_q6(out) : append_q45(out); }

 private:
  size_t parts() const { return kSuper / layout_.part; }
  Part part(size_t p) const {
    return {x_.subspan(p * layout_.part, layout_.part), importance_.subspan(p * layout_.part, layout_.part)};
  }
  Line line_of(size_t p) const {  // as the decoder rounds it
    return {d_ * static_cast<float>(scales_[p]), dmin_ * static_cast<float>(mins_[p])};
  }

  // The whole scale and minimum next to a line, or one beside them, whichever leaves least.
  void choose_whole(size_t p, const Line& line) {
    const auto whole = [](float x, float unit, int least, int most) {
      return unit == 0 ? 0
                       : static_cast<int>(
                             std::clamp(std::nearbyint(x / unit), static_cast<float>(least), static_cast<float>(most)));
    };
    const int scale = whole(line.scale, d_, layout_.least_scale, layout_.most_scale),
              min = whole(line.min, dmin_, 0, layout_.most_scale);
    double least = INFINITY;
    int best_scale = 0, best_min = 0;
    const auto consider = [&](int s, int m) {
      scales_[p] = s, mins_[p] = m;
      const double e = error_on(line_of(p), layout_, part(p));
      if (e < least) least = e, best_scale = s, best_min = m;
    };
    const auto [from, to] =
        layout_.has_min ? std::pair{std::max(min - 1, 0), std::min(min + 1, layout_.most_scale)} : std::pair{0, 0};
    for (int s = std::max(scale - 1, layout_.least_scale); s <= std::min(scale + 1, layout_.most_scale); ++s)
      for (int m = from; m <= to; ++m) consider(s, m);
    consider(0, 0);  // where f16 holds the one unit and not the other
    scales_[p] = best_scale, mins_[p] = best_min;
  }

  double whole_error() const {
    double error = 0;
    for (size_t p = 0; p < parts(); ++p) error += error_on(line_of(p), layout_, part(p));
    return error;
  }

  // d and dmin by least squares for the codes as they are; kept where the error falls.
  void fit_to_parts(const std::array<Line, 16>& lines) {
    double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;  // x = d·a − dmin·b, a = scale·(code − zero), b = minimum
    for (size_t p = 0; p < parts(); ++p) {
      const Part of = part(p);
      for (size_t i = 0; i < of.x.size(); ++i) {
        const double h = static_cast<double>(of.importance[i]), y = static_cast<double>(of.x[i]),
                     a = scales_[p] * (code_on(line_of(p), layout_, of.x[i]) - layout_.zero), b = -mins_[p];
        aa += h * a * a, ab += h * a * b, bb += h * b * b, ay += h * a * y, by += h * b * y;
      }
    }
    const double det = aa * bb - ab * ab;
    const bool both = det > 1e-12 * aa * bb;
    if (!both && !(aa > 0)) return;
    const KCoder before = *this;
    const double error = whole_error();
    d_ = as_f16(both ? (bb * ay - ab * by) / det : (ay + static_cast<double>(dmin_) * -ab) / aa);
    if (both) dmin_ = as_f16((aa * by - ab * ay) / det);
    const bool possible = !layout_.has_min || (d_ > 0 && dmin_ >= 0);
    for (size_t p = 0; possible && p < parts(); ++p) choose_whole(p, lines[p]);
    if (!possible || !(whole_error() < error)) *this = before;
  }

  void put_f16(float x, std::string& out) const {
    const f16 held = to_f16(x);
    char bytes[2];
    std::memcpy(bytes, &held, 2);
    out.append(bytes, 2);
  }
  void put(unsigned byte, std::string& out) const { out.push_back(static_cast<char>(byte)); }
  unsigned code_at(size_t i) const { return codes_[i]; }

  // Layouts: kernels/cpu/decode_k_isa.cpp.
  void append_q45(std::string& out) const {
    put_f16(d_, out), put_f16(dmin_, out);
    const auto s = [&](size_t p) { return static_cast<unsigned>(scales_[p]); };
    const auto m = [&](size_t p) { return static_cast<unsigned>(mins_[p]); };
    for (size_t p = 0; p < 4; ++p) put(s(p) | s(p + 4) >> 4 << 6, out);
    for (size_t p = 0; p < 4; ++p) put(m(p) | m(p + 4) >> 4 << 6, out);
    for (size_t p = 4; p < 8; ++p) put((s(p) & 15) | (m(p) & 15) << 4, out);
    for (size_t i = 0; type_ == WeightType::q5_k && i < 32; ++i) {
      unsigned fifth = 0;
      for (size_t p = 0; p < 8; ++p) fifth |= code_at(32 * p + i) >> 4 << p;
      put(fifth, out);
    }
    for (size_t pair = 0; pair < 4; ++pair)
      for (size_t i = 0; i < 32; ++i) put((code_at(64 * pair + i) & 15) | (code_at(64 * pair + 32 + i) & 15) << 4, out);
  }
  void append_q6(std::string& out) const {
    for (size_t half = 0; half < 2; ++half)
      for (size_t i = 0; i < 64; ++i)
        put((code_at(128 * half + i) & 15) | (code_at(128 * half + 64 + i) & 15) << 4, out);
    for (size_t half = 0; half < 2; ++half)
      for (size_t i = 0; i < 32; ++i) {
        unsigned upper = 0;
        for (size_t pair = 0; pair < 4; ++pair) upper |= code_at(128 * half + 32 * pair + i) >> 4 << 2 * pair;
        put(upper, out);
      }
    for (size_t p = 0; p < 16; ++p) put(static_cast<unsigned>(scales_[p]) & 255, out);
    put_f16(d_, out);
  }

  WeightType type_;
  KLayout layout_;
  // Of the 256 numbers at hand.
  std::span<const float> x_, importance_;
  std::array<float, kSuper> fitted_ = {};  // x as fit saw it
  float d_ = 0, dmin_ = 0;
  std::array<int, 16> scales_ = {}, mins_ = {};
  std::array<uint8_t, kSuper> codes_ = {};
};

}  // namespace

bool is_k_type(WeightType type) {
  return type == WeightType::q4_k || type == WeightType::q5_k || type == WeightType::q6_k;
}

std::unique_ptr<RowCoder> k_coder(WeightType type) {
  TERN_CHECK(is_k_type(type), "k_coder: {}", name_of(type));
  return std::make_unique<KCoder>(type);
}

}  // namespace tern
