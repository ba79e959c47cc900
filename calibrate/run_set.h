#pragma once
// Runs of a table made ready to be priced, all of one dtype.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "calibrate/constants.h"
#include "calibrate/run_price.h"
#include "hardware/cluster.h"

namespace tern {

/// Runs made ready, all of one dtype.
class RunSet {
 public:
  /// Errors: as RunPricer's and ReadyPipelines'; bad_file, for rows of several dtypes.
  RunSet(const std::vector<PublishedRun>&, const Cluster&, const std::string& path);

  size_t size() const { return runs_.size(); }
  const PublishedRun& run(size_t i) const { return runs_[i].run(); }
  const RunPricer& pricer(size_t i) const { return runs_[i]; }
  const Cluster& cluster() const { return cluster_; }
  DType dtype() const { return dtype_; }

  /// Seconds of the runs `which` under these constants, in their order.
  std::vector<double> seconds(std::span<const size_t> which, const Constants&) const;
  /// The same on a cluster's own rates.
  std::vector<double> seconds_on(std::span<const size_t> which, const Cluster&) const;
  /// All rows; those that were measured and may be fitted.
  std::vector<size_t> all() const;
  std::vector<size_t> fitted() const;

 private:
  Cluster cluster_;
  DType dtype_ = DType::f16;
  std::vector<RunPricer> runs_;
  std::vector<size_t> like_;  // the first run that shares each one's prices
};

}  // namespace tern
