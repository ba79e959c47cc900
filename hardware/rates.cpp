#include "hardware/rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

// Position of x on an axis: index of the grid point at or below it and the share of the way to the next, by logarithm
// or not.
struct Place {
  size_t index;
  double part;
};
Place place_of(const std::vector<int64_t>& axis, int64_t x, bool linear) {
  if (x <= axis.front()) return {0, 0};
  if (x >= axis.back()) return {axis.size() - 1, 0};
  const size_t i = static_cast<size_t>(std::upper_bound(axis.begin(), axis.end(), x) - axis.begin()) - 1;
  double low = static_cast<double>(axis[i]), high = static_cast<double>(axis[i + 1]), at = static_cast<double>(x);
  if (!linear) low = std::log(low), high = std::log(high), at = std::log(at);
  return {i, (at - low) / (high - low)};
}

double share_of(const MatmulRates& t, int64_t m, int64_t n, int64_t k) {
  if (t.top > 0) {
    const std::array<double, 3> size{static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)};
    double share = t.top;
    for (size_t a = 0; a < 3; ++a) share *= size[a] / (size[a] + t.half[a]);
    return share;
  }
  const std::array<int64_t, 3> size{m, n, k};
  const std::array<const std::vector<int64_t>*, 3> axes{&t.rows, &t.columns, &t.depth};
  std::array<Place, 3> at{};
  double inside = 1;  // the size within the grid
  for (size_t a = 0; a < 3; ++a) {
    at[a] = place_of(*axes[a], size[a], t.linear_time);
    inside *= static_cast<double>(std::clamp(size[a], axes[a]->front(), axes[a]->back()));
  }
  double sum = 0;  // of the logarithms of shares, or of times at the peak
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1, product = 1;
    std::array<size_t, 3> index{};
    for (unsigned a = 0; a < 3; ++a) {
      const bool upper = corner >> a & 1U;
      weight *= upper ? at[a].part : 1 - at[a].part;
      index[a] = at[a].index + (upper ? 1 : 0);
      if (weight > 0) product *= static_cast<double>((*axes[a])[index[a]]);
    }
    if (weight <= 0) continue;
    const double share = t.share[(index[0] * t.columns.size() + index[1]) * t.depth.size() + index[2]];
    sum += weight * (t.linear_time ? product / share : std::log(share));
  }
  return t.linear_time ? inside / sum : std::exp(sum);
}

int64_t round_up(int64_t x, int64_t tile) { return (x + tile - 1) / tile * tile; }

double rate_or_memory(const std::vector<std::pair<DType, double>>& rates, const DeviceType& d, DType dtype) {
  for (const auto& [of, rate] : rates)
    if (of == dtype) return rate;
  return d.memory_bandwidth;
}

}  // namespace

double peak_flops(const DeviceType& d, DType dtype) {
  std::string stated;
  for (const auto& [name, rate] : d.peak) {
    if (name == dtype) return rate;
    stated += (stated.empty() ? "" : ", ") + std::string(name_of(name));
  }
  throw Error(ErrorKind::usage, "hardware: device '{}' states no peak for {}, only for {}; choose another --dtype",
              d.name, name_of(dtype), stated);
}

bool has_table(const DeviceType& d, DType dtype, ProductUse use) {
  return std::any_of(d.matmul.begin(), d.matmul.end(), [&](const auto& t) { return t.dtype == dtype && t.use == use; });
}

AttentionRates attention_rates(const DeviceType& d, DType dtype, int64_t head_dim) {
  const HeadAttentionRates *below = nullptr, *above = nullptr;
  for (const HeadAttentionRates& t : d.attention_of) {
    if (t.dtype != dtype) continue;
    if (t.head <= head_dim || !below) below = &t;
    if (t.head >= head_dim && !above) above = &t;
  }
  if (!below) return {d.attention_forward, d.attention_backward, d.attention_forward, 1};
  AttentionRates r = below->rates;
  if (below->head == 0 || below->head == head_dim || !above) return r;  // of any size, measured, or the largest
  const auto low = static_cast<double>(below->head), high = static_cast<double>(above->head);
  const auto head = static_cast<double>(head_dim);
  const double part = above == below ? 0 : (head - low) / (high - low);
  // Times of a pair and what it has more over few keys: head·(1 + half/n) / share.
  const auto between = [&](double AttentionRates::*share, double AttentionRates::*half) {
    const auto mixed = [&](double at_low, double at_high) { return at_low + part * (at_high - at_low); };
    const double from = low / below->rates.*share, to = high / above->rates.*share;
    const double time = mixed(from, to);
    r.*half = mixed(from * (below->rates.*half), to * (above->rates.*half)) / time;
    r.*share = head / time;
  };
  between(&AttentionRates::forward, &AttentionRates::forward_half);
  between(&AttentionRates::backward, &AttentionRates::backward_half);
  between(&AttentionRates::prefill, &AttentionRates::prefill_half);
  between(&AttentionRates::decode, &AttentionRates::decode_half);
  return r;
}

double elementwise_rate(const DeviceType& d, DType dtype) { return rate_or_memory(d.elementwise, d, dtype); }
double update_rate(const DeviceType& d, DType dtype) { return rate_or_memory(d.update, d, dtype); }

double read_rate(const DeviceType& d, DType dtype, int64_t working_set, bool mapped) {
  const ReadRate *below = nullptr, *above = nullptr;
  for (const ReadRate& r : d.reads) {
    if (r.dtype != dtype || (mapped && r.mapped == 0)) continue;
    if (r.bytes <= working_set || !below) below = &r;
    if (r.bytes >= working_set && !above) above = &r;
  }
  if (!below) return mapped ? read_rate(d, dtype, working_set, false) : d.memory_bandwidth;
  const auto rate = [&](const ReadRate& r) { return mapped ? r.mapped : r.rate; };
  if (!above || above == below || below->bytes >= working_set) return rate(*below);
  const double low = std::log(static_cast<double>(below->bytes)), high = std::log(static_cast<double>(above->bytes));
  const double part = (std::log(static_cast<double>(working_set)) - low) / (high - low);
  return 1 / ((1 - part) / rate(*below) + part / rate(*above));
}

int64_t matmul_ps(const DeviceType& d, DType dtype, int64_t m, int64_t n, int64_t k, ProductUse use) {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  const double peak = peak_flops(d, dtype);
  if (!has_table(d, dtype, use)) use = ProductUse::any;
  const auto table =
      std::find_if(d.matmul.begin(), d.matmul.end(), [&](const auto& t) { return t.dtype == dtype && t.use == use; });
  TERN_CHECK(table != d.matmul.end(), "matmul_ps: device '{}' has no table for {}", d.name, name_of(dtype));
  m = round_up(m, table->tile[0]), n = round_up(n, table->tile[1]), k = round_up(k, table->tile[2]);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return counted_ps(flops / (peak * share_of(*table, m, n, k)) * 1e12);
}

int64_t counted_ps(double ps) {
  if (!(ps < static_cast<double>(kMostPs))) return kMostPs;
  return ps <= 0 ? 0 : static_cast<int64_t>(std::ceil(ps));
}
int64_t counted_ps(int64_t n, int64_t ps) { return ps > 0 && n > kMostPs / ps ? kMostPs : n * ps; }

}  // namespace tern
