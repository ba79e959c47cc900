#include "train/peak_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/system.h"
#include "base/threads.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"
#include "train/product_probe.h"

namespace tern {
namespace {

constexpr double kProbeSeconds = 0.2;

// The best rate, not the mean: a neighbour on the machine can only slow a product down.
template <class Product>
double best_rate(Product product) {
  Clock& clock = real_clock();
  double best = 0;
  product();  // kernels are chosen and generated in the first call
  const int64_t begin = clock.now_ns();
  while (seconds_between(begin, clock.now_ns()) < kProbeSeconds) {
    const int64_t start = clock.now_ns();
    product();
    best = std::max(best, kProbeFlops / seconds_between(start, clock.now_ns()));
  }
  return best;
}

template <class T>
double probe(Multiply multiply) {
  using Probe = ProductProbe<T>;
  Probe product(multiply == Multiply::fast ? Probe::Who::fast : Probe::Who::exact);
  return best_rate([&] { product.run(); });
}

Json read_cache(const std::string& path) {
  try {
    if (!path.empty() && real_io().stat(path))
      if (Json cache = read_json_file(path); cache.is_object()) return cache;
  } catch (const Error& e) { log_debug("peak rates: {}; measuring anew", e.what()); }
  return Json::object();
}

std::string multiplier_name(DType dtype, Multiply multiply) {
  return multiply == Multiply::fast ? fast_matmul_name(dtype) : "own kernels";
}

std::string cache_key(DType dtype, Multiply multiply) {
  return fmt::format("{}, {}, {} threads, {}, {}", read_cpu_facts().model, name_of(active_isa()), num_compute_threads(),
                     name_of(dtype), multiplier_name(dtype, multiply));
}

double probe_of(DType dtype, Multiply multiply) {
  return dtype == DType::bf16 ? probe<bf16>(multiply) : probe<float>(multiply);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[40];
  return ::gmtime_r(&now, &parts) && std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) ? text : "";
}

// {"flops_per_s": 5.6e10, "measured": "…"}; a bare number, as earlier versions kept it, is too poor: measured anew.
bool read_entry(const Json& entry, PeakRate& rate) {
  if (!entry.is_object() || !entry.contains("flops_per_s") || !entry["flops_per_s"].is_number()) return false;
  if (!(entry["flops_per_s"].get<double>() > 0)) return false;
  rate.flops_per_s = entry["flops_per_s"].get<double>();
  if (entry.contains("measured") && entry["measured"].is_string()) rate.measured = entry["measured"].get<std::string>();
  return true;
}

void write_cache(const std::string& path, const Json& cache) {
  try {
    if (path.empty()) return;
    make_dirs(real_io(), parent_path(path));
    write_file_atomically(real_io(), path, dump_json(cache, 2) + "\n");
  } catch (const Error& e) { log_debug("peak rates: {}; not kept", e.what()); }
}

void keep(const std::string& path, Json& cache, const std::string& key, const PeakRate& rate) {
  cache[key] = {{"flops_per_s", rate.flops_per_s}, {"measured", rate.measured}};
  write_cache(path, cache);
}

}  // namespace

std::string peak_rate_path() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache) return join_path(join_path(cache, "tern"), "peak-rates.json");
  if (home && *home) return join_path(join_path(join_path(home, ".cache"), "tern"), "peak-rates.json");
  return "";
}

PeakRate peak_rate(DType dtype, Multiply multiply, const std::function<void()>& measuring) {
  PeakRate rate{.multiplier = multiplier_name(dtype, multiply)};
  if (dtype == DType::f64) return rate;
  const std::string key = cache_key(dtype, multiply), path = peak_rate_path();
  Json cache = read_cache(path);
  if (cache.contains(key) && read_entry(cache[key], rate)) return rate;
  if (measuring) measuring();
  rate.flops_per_s = probe_of(dtype, multiply);
  rate.measured = now_text();
  rate.measured_now = true;
  keep(path, cache, key, rate);
  return rate;
}

PeakRate raise_peak_rate(DType dtype, Multiply multiply, double seen, bool probe_again) {
  PeakRate rate{.multiplier = multiplier_name(dtype, multiply)};
  const std::string key = cache_key(dtype, multiply), path = peak_rate_path();
  Json cache = read_cache(path);
  if (cache.contains(key)) read_entry(cache[key], rate);
  const double probed = probe_again ? probe_of(dtype, multiply) : 0;
  if (const double highest = std::max(probed, seen); highest > rate.flops_per_s) {
    rate.flops_per_s = highest;
    rate.measured = now_text();
    rate.measured_now = true;
    keep(path, cache, key, rate);
  }
  return rate;
}

}  // namespace tern
