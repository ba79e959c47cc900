#pragma once
// For tests of the loop: a folder for what a run reads, and what a row of its log says.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <string>

#include "base/io.h"
#include "report/metrics_log.h"

namespace tern {

/// For what a run reads, and for the cache of the machine's peak.
struct RunFolder {
  std::string path = testing::TempDir() + "tern-trainer-XXXXXX";
  RunFolder() {
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", path.c_str(), 1);
  }
  ~RunFolder() { remove_all(real_io(), path); }
  RunFolder(const RunFolder&) = delete;
};

/// NaN: the row has no such value.
inline double value_of(const MetricRow& row, const std::string& tag) {
  for (const auto& [name, value] : row.values)
    if (name == tag) return value;
  return NAN;
}

}  // namespace tern
