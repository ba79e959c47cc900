#include "infer/stream_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/matmul.h"

namespace tern {
double distinct_experts(const FileExperts& unit, int64_t tokens) {
  const auto count = static_cast<double>(unit.up.size()), chosen = static_cast<double>(unit.top_k);
  return count * (1 - std::pow(1 - chosen / count, static_cast<double>(tokens)));
}

double expected_bytes(const StreamPlan& plan, int64_t tokens, double hits) {
  double bytes = static_cast<double>(plan.streamed_bytes);
  for (const FileExperts& unit : plan.bands.experts)
    bytes += (1 - hits) * distinct_experts(unit, tokens) * static_cast<double>(unit.expert_bytes());
  return bytes;
}

int64_t picoseconds(double bytes, double rate) { return rate > 0 ? static_cast<int64_t>(bytes / rate * 1e12) : 0; }

namespace {

// Seconds of loading and of multiplying one expert's matrices.
struct MatrixTimes {
  double load_s, product_s, blocks;  // blocks: bytes of them
};
MatrixTimes matrix_times(const FileMatrix& m, const StreamRates& rates) {
  double blocks = 0, bytes = 0;
  for (const FileBand& band : m.bands) {
    blocks += static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes);
    bytes += static_cast<double>(band.extent.bytes);
  }
  const double products = rates.experts > 0 ? rates.experts : rates.coded;
  const double disk = rates.disk_experts > 0 ? rates.disk_experts : rates.disk;
  return {disk > 0 ? blocks / disk : 0, products > 0 ? bytes / products : 0, blocks};
}

// The shares of their own rates that reading and products have while both work.
struct SharesOfBoth {
  double load = 1, product = 1;
};

// The experts of a pass with `missing` of the k, spread evenly among them: their matrices are read one behind the other from the router's
// answer on, all `up` before all `down`, and each product waits for its own matrix and for the product before it.
double experts_s(const MatrixTimes& up, const MatrixTimes& down, int64_t k, int64_t missing, const SharesOfBoth& both) {
  const auto is_missing = [&](int64_t i) { return (i % k + 1) * missing / k > i % k * missing / k; };
  const auto times = [&](int64_t i) -> const MatrixTimes& { return i < k ? up : down; };
  const auto next_missing = [&](int64_t i) {
    while (i < 2 * k && !is_missing(i)) ++i;
    return i;
  };
  double seconds = 0;
  int64_t read = next_missing(0);
  double load_s = read < 2 * k ? times(read).load_s : 0;  // of it, left
  for (int64_t i = 0; i < 2 * k; ++i) {
    double product_s = times(i).product_s;  // left
    for (bool done = false; !done;) {
      const bool reads = read < 2 * k, multiplies = !reads || i < read;
      const double load = multiplies ? both.load : 1, product = reads ? both.product : 1;
      const double until_read = reads ? load_s / load : 0, until_done = product_s / product;
      const bool ends_read = reads && (!multiplies || until_read <= until_done);
      const double step = ends_read ? until_read : until_done;
      seconds += step;
      if (multiplies) product_s -= step * product;
      done = multiplies && !ends_read;
      load_s -= step * load;
      if (!ends_read) continue;
      read = next_missing(read + 1);
      load_s = read < 2 * k ? times(read).load_s : 0;
    }
  }
  return seconds;
}

// Of one unit, the mean over how many of its chosen experts are missing: each is there with probability `hits`.
double mean_experts_s(const FileExperts& unit, const StreamRates& rates, double hits, StreamTimes& times) {
  const MatrixTimes up = matrix_times(unit.up.front(), rates), down = matrix_times(unit.down.front(), rates);
  const int64_t k = std::lround(distinct_experts(unit, rates.rows));
  if (rates.disk > 0) times.disk_s += (1 - hits) * static_cast<double>(k) * (up.blocks + down.blocks) / rates.disk;
  times.products_s += static_cast<double>(k) * (up.product_s + down.product_s);
  const SharesOfBoth both{rates.disk_beside > 0 ? rates.disk_beside / rates.disk : 1, 1 - rates.slowed};
  if (k > 16)
    return experts_s(up, down, k, std::lround((1 - hits) * static_cast<double>(k)), both);  // of many: the mean
  double mean = 0, ways = 1;  // ways to choose the missing ones
  for (int64_t missing = 0; missing <= k; ++missing) {
    const double share = ways * std::pow(1 - hits, missing) * std::pow(hits, k - missing);
    mean += share * experts_s(up, down, k, missing, both);
    ways = ways * static_cast<double>(k - missing) / static_cast<double>(missing + 1);
  }
  return mean;
}

}  // namespace

OverlappedRates overlapped_rates(double bytes, double products_s, const StreamRates& rates) {
  const double beside = rates.disk_beside > 0 ? rates.disk_beside : rates.disk, left = 1 - rates.slowed;
  if (beside == rates.disk && rates.slowed == 0) return {rates.disk, 1};
  if (bytes * left <= beside * products_s)  // products end last
    return {beside, products_s > 0 ? 1 + rates.slowed * bytes / (beside * products_s) : 1};
  const double both_s = products_s / left, rest_s = (bytes - beside * both_s) / rates.disk;
  return {bytes / (both_s + rest_s), 1 / left};
}

std::vector<PassStep> pass_steps(const StreamPlan& plan, const StreamRates& rates) {
  struct Step {
    double load, forward_s;  // bytes; alone
  };
  std::vector<Step> alone;
  double bytes = 0, products_s = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands) {
      const bool stays = plan.stays[alone.size()];
      const int64_t load = stays ? 0 : blocks_of(band.extent, kStreamAlignment).bytes;
      const bool packed = stays && stays_packed(band, m.in, plan.dtype);  // else as the file codes it
      const int64_t multiplied = packed ? packed_bytes(plan.dtype, band.rows, m.in) : band.extent.bytes;
      const double rate = packed ? rates.kept : rates.coded;
      alone.push_back({static_cast<double>(load), rate > 0 ? static_cast<double>(multiplied) / rate : 0});
      bytes += alone.back().load, products_s += alone.back().forward_s;
    }
  const OverlappedRates both = overlapped_rates(bytes, products_s, rates);
  std::vector<PassStep> steps;
  for (const Step& step : alone)
    steps.push_back(
        {.load_ps = picoseconds(step.load, both.disk), .forward_ps = picoseconds(step.forward_s, 1 / both.slower)});
  return steps;
}

StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates, double hits) {
  StreamTimes times{.tokens = rates.rows};
  for (const PassStep& step : pass_steps(plan, {.disk = rates.disk, .kept = rates.kept, .coded = rates.coded})) {
    times.disk_s += 1e-12 * static_cast<double>(step.load_ps);
    times.products_s += 1e-12 * static_cast<double>(step.forward_ps);
  }
  const int64_t pass_ps = steady_pass_ps(pass_steps(plan, rates), window_of(plan.ring));
  times.pass_s = 1e-12 * static_cast<double>(pass_ps);
  for (const FileExperts& unit : plan.bands.experts) times.pass_s += mean_experts_s(unit, rates, hits, times);
  return times;
}

}  // namespace tern
