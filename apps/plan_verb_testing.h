#pragma once
// For tests that call `tern plan` as a person does: a folder of their own, and a usual job.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "base/source_dir_testing.h"
#include "base/text.h"

namespace tern {

inline const std::string kHardware = source_dir() + "/examples/hardware/";
inline const std::string kNode = " --hardware " + kHardware + "h100-node.toml";
inline const std::string kJob = " --batch 16 --seq 4096 --schedules 1f1b --max-tensor 2 --max-context 1";

class PlanVerb : public testing::Test {
 protected:
  PlanVerb() {
    std::string pattern = testing::TempDir() + "tern-plan-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~PlanVerb() override { remove_all(real_io(), folder_); }
  std::string path(const std::string& name) const { return join_path(folder_, name); }
  // Runs `tern REST` in the folder. `before` may limit its time or set its environment. The output includes its standard
  // error, unless `rest` sends that elsewhere.
  Outcome tern(const std::string& rest, const std::string& before = "") const {
    return run_shell("cd " + folder_ + "; env -u TERN_DATA " + before + " 2>&1 " TERN_PROGRAM " " + rest);
  }
  Json json_of(const std::string& name) const { return parse_json(real_io().read(path(name)), name); }
  void put(const std::string& name, const std::string& text) const {
    write_file_atomically(real_io(), path(name), text);
  }
  std::string folder_;
};

}  // namespace tern
