#pragma once
// Runs of a table made ready to be priced, all of one dtype.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "calibrate/constants.h"
#include "calibrate/run_price.h"
#include "hardware/cluster.h"

namespace tern {

/// See RunSet::traits.
struct AgreedTraits {
  FrameworkTraits traits;
  std::vector<std::string_view> differ;  // columns of the table
};

/// Runs of one dtype, made ready to be priced.
class RunSet {
 public:
  /// Errors: as RunPricer's and ReadyPipelines'; bad_file, for rows of several dtypes.
  RunSet(const std::vector<PublishedRun>&, const Cluster&, const std::string& path);

  size_t size() const { return runs_.size(); }
  const PublishedRun& run(size_t i) const { return runs_[i].run(); }
  const RunPricer& pricer(size_t i) const { return runs_[i]; }
  const Cluster& cluster() const { return cluster_; }
  DType dtype() const { return dtype_; }

  /// Predicted seconds of the runs `which` under these constants. Shapes: as which.
  std::vector<double> seconds(std::span<const size_t> which, const Constants&) const;
  /// The same by the rates of a cluster.
  std::vector<double> seconds_on(std::span<const size_t> which, const Cluster&) const;
  /// The places of all rows; and of those that were measured and that may be fitted.
  std::vector<size_t> all() const;
  std::vector<size_t> fitted() const;

  /// How the framework computed in these rows (at least one): what they agree on, and the names of the columns in which they do not, whose
  /// traits are then the defaults. What concerns tensor groups, context ranks, or ZeRO 1 and 2 alone is asked of rows that have them.
  AgreedTraits traits(std::span<const size_t> which) const;

 private:
  Cluster cluster_;
  DType dtype_ = DType::f16;
  std::vector<RunPricer> runs_;
  std::vector<size_t> like_;  // the first run that shares each one's prices
};

}  // namespace tern
