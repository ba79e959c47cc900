#pragma once
// Pipelines made ready to run, one of each shape, so that rows of a table share them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "plan/legality.h"
#include "program/pipeline_run.h"

namespace tern {

/// Pipelines made ready to run, one for each shape, shared by all rows that have it. Their operations take most of a
/// table's memory, so they are bounded.
class ReadyPipelines {
 public:
  static constexpr int64_t kMostReady = 4 * kMostOperations;
  explicit ReadyPipelines(int64_t most_operations = kMostReady) : most_(most_operations) {}
  struct Ready {
    PreparedPipeline prepared;
    PipelineScratch scratch;
    PipelineRun run;
  };
  /// The pipeline of a shape. `where`: "PATH:LINE", for the error. The times do not matter, as callers ask only for
  /// schedules that ignore them. Errors: bad_file: all pipelines together would have more than `most_operations`
  /// operations.
  std::shared_ptr<Ready> of(const PipelineShape&, const PipelineTimes&, const std::string& where);
  int64_t operations() const { return operations_; }

 private:
  std::map<std::tuple<PipelineSchedule, int, int, int>, std::shared_ptr<Ready>> ready_;
  int64_t most_, operations_ = 0;
};

}  // namespace tern
