#pragma once
// How fast this machine multiplies matrices: the denominator of "share of peak". A short probe measures it once; the result is kept.

#include <functional>
#include <string>

#include "base/dtype.h"
#include "model/unit.h"

namespace tern {

/// The rate of the fastest matrix product that was measured on this machine.
struct PeakRate {
  double flops_per_s = 0;
  std::string multiplier;     // "oneDNN 2.6.3", "own kernels"
  std::string measured;       // "2026-11-21 20:15 UTC"; empty if the cache does not say
  bool measured_now = false;  // false: taken from the cache
};

/// The best rate of several products of 1024³ (f32, bf16) by this multiplier, in about 0.2 s; each counts as 2·1024³ flops. f64 runs on the
/// reference kernels and is not probed: flops_per_s is 0, and no share is shown. The rate is kept in CACHE/tern/peak-rates.json by CPU
/// model, instruction set, threads, dtype and multiplier; CACHE is $XDG_CACHE_HOME or ~/.cache. If the cache cannot be read or written, the
/// rate is measured anew and the debug log says so. `measuring` is called before a probe, but not if the cache has the rate. Errors: none.
PeakRate peak_rate(DType, Multiply, const std::function<void()>& measuring = {});

/// Called when a run has reached `seen` flops/s, more than the kept rate: the probe must have been disturbed. Keeps and returns the
/// highest of the old rate, `seen`, and, if `probe_again`, the rate of a new probe.
PeakRate raise_peak_rate(DType, Multiply, double seen, bool probe_again);

/// Where measurements are kept; empty if there is no home directory.
std::string peak_rate_path();

}  // namespace tern
