#pragma once
// How fast this machine multiplies matrices: the denominator of "share of peak". A short probe, measured once and kept.

#include <string>

#include "base/dtype.h"
#include "model/unit.h"

namespace tern {

struct PeakRate {
  double flops_per_s = 0;
  std::string multiplier;     // "oneDNN 2.6.3", "own kernels"
  bool measured_now = false;  // false: taken from the cache
};

/// The best of several products of 1024³ (f32, bf16) by `multiply` in about 0.2 s, 2·1024³ flops each; f64: 256³ on the
/// reference kernels' road is not worth a probe, flops_per_s is 0 and no share is shown. Kept in
/// CACHE/tern/peak-rates.json by CPU model, instruction set, threads, dtype and multiplier; CACHE is $XDG_CACHE_HOME or
/// ~/.cache. A cache that cannot be read or written is measured anew and said in the debug log. Errors: none.
PeakRate peak_rate(DType, Multiply);

/// Drops a measurement that a run has just beaten: a neighbour disturbed the probe. The next run measures anew.
void forget_peak_rate(DType, Multiply);

/// Where measurements are kept; empty if there is no home directory.
std::string peak_rate_path();

}  // namespace tern
