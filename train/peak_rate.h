#pragma once
// How fast this machine multiplies matrices: the denominator of "share of peak". A short probe, measured once and kept.

#include <functional>
#include <string>

#include "base/dtype.h"
#include "model/unit.h"

namespace tern {

struct PeakRate {
  double flops_per_s = 0;
  std::string multiplier;     // "oneDNN 2.6.3", "own kernels"
  std::string measured;       // "2026-11-21 20:15 UTC"; empty if the cache does not say
  bool measured_now = false;  // false: taken from the cache
};

/// The best of several products of 1024³ (f32, bf16) by `multiply` in about 0.2 s, 2·1024³ flops each; f64, which runs on
/// the reference kernels, is not probed: flops_per_s is 0 and no share is shown. Kept in CACHE/tern/peak-rates.json by CPU
/// model, instruction set, threads, dtype and multiplier; CACHE is $XDG_CACHE_HOME or ~/.cache. Where the cache cannot be
/// read or written, the rate is measured anew and the debug log says so. `measuring` is called before a probe, not where
/// the cache answers. Errors: none.
PeakRate peak_rate(DType, Multiply, const std::function<void()>& measuring = {});

/// After a run has reached `seen` flops/s, more than the rate that was kept: the probe was disturbed. Keeps the highest
/// of the old rate, a new probe (if `probe_again`) and `seen`, which is a rate this machine did reach.
PeakRate raise_peak_rate(DType, Multiply, double seen, bool probe_again);

/// Where measurements are kept; empty if there is no home directory.
std::string peak_rate_path();

}  // namespace tern
