#pragma once
// The constants that a calibration fits: inputs of the cost model (hardware/cluster.h), each with a meaning, a value
// before any run is seen, and bounds that the data sheet or sense gives.

#include <array>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "hardware/cluster.h"

namespace tern {

inline constexpr size_t kNumConstants = 14;
using Constants = std::array<double, kNumConstants>;

/// A constant. `spread`: how far the value (its logarithm, if `ratio`) may be expected to lie from `nominal`. In the
/// fit a constant one spread away costs ½, and a row off by FitOptions::scale costs ½·log 2; so a few rows move only
/// constants that they depend on.
struct ConstantSpec {
  std::string_view name, unit, meaning;
  double nominal, spread, least, most;
  bool ratio;
};
/// All constants, in the order of Constants; and their nominal values.
const std::array<ConstantSpec, kNumConstants>& constant_specs();
Constants nominal_constants();

/// The cluster with its rates set from the constants: products of `dtype` as a curve, links as shares of the data
/// sheet's bandwidth, and the framework's costs. All node types, and all device types that
/// some group's nodes hold, take the same ones. Errors: usage, for such a device without a peak for the dtype.
Cluster with_constants(Cluster, DType, const Constants&);

}  // namespace tern
