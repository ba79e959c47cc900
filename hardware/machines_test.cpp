#include "hardware/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "hardware/cluster.h"

namespace tern {
namespace {

TEST(Machines, EveryFileOfTheFolderIsInTheProgramAndReads) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/hardware/machines")) {
    const std::string name = entry.path().stem().string();
    names.push_back(name);
    const auto file =
        std::find_if(machine_files().begin(), machine_files().end(), [&](const auto& f) { return f.name == name; });
    ASSERT_NE(file, machine_files().end()) << name;
    EXPECT_EQ(file->toml, real_io().read(entry.path().string()));
    const Cluster c = find_cluster(name);
    EXPECT_EQ(c.groups.size(), 1u);
    EXPECT_EQ(with_nodes(c, 8).num_devices(), 8 * c.num_devices()) << name;
  }
  EXPECT_EQ(names.size(), machine_files().size());
  for (const char* wanted : {"v100", "a100-80g", "h100", "h200", "b200", "gb200-nvl72", "rtx3060", "rtx4090", "rtx5090",
                             "dcu-z100", "ascend910b"})
    EXPECT_NE(std::find(names.begin(), names.end(), wanted), names.end()) << wanted;
}

// Words that say where a figure is from, or the formula that it follows from.
bool says_a_source(std::string_view comment) {
  for (const char* word : {"data sheet", "assumed", "specification", "public reports", "measured"})
    if (comment.find(word) != std::string_view::npos) return true;
  return comment.find(" per cycle at ") != std::string_view::npos;
}

TEST(Machines, NamesIgnoreCaseAndHalfANameSaysWhatThereIs) {
  EXPECT_EQ(find_cluster("A100-80G").name, find_cluster("a100-80g").name);
  try {
    find_cluster("a100");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'a100-40g' or 'a100-80g'?"), std::string::npos) << e.what();
  }
}

TEST(Machines, EveryFigureSaysItsSource) {
  EXPECT_FALSE(says_a_source("# f32 accumulation"));
  int figures = 0;
  for (const MachineFile& file : machine_files()) {
    std::string table;
    for (const std::string_view line : split(file.toml, '\n')) {
      if (line.starts_with("[")) table = line;
      const size_t equals = line.find(" = ");
      if (equals == std::string_view::npos || line.starts_with("#")) continue;
      const std::string_view key = line.substr(0, equals);
      static constexpr std::string_view kNoFigure[] = {"version", "name", "device", "devices", "dtype",
                                                       "tile",    "node", "nodes",  "count"};
      if (std::find(std::begin(kNoFigure), std::end(kNoFigure), key) != std::end(kNoFigure)) continue;
      ++figures;
      const auto comment = [](std::string_view text) { return text.substr(std::min(text.find('#'), text.size())); };
      EXPECT_TRUE(says_a_source(comment(line)) || says_a_source(comment(table))) << file.name << ": " << line;
    }
  }
  EXPECT_GT(figures, 400);
}

// Where a peak states how it comes about, it is that: cores × operations of a cycle × clock.
TEST(Machines, PeaksAreWhatTheirFormulasSay) {
  int formulas = 0;
  for (const MachineFile& file : machine_files())
    for (const std::string_view line : split(file.toml, '\n')) {
      long long sockets = 0, cores = 0, thousands = 0, units = 0;
      double rate = 0, clock = 0;
      char dtype[8] = "";
      const std::string text(line);
      if (std::sscanf(text.c_str(), "%7s = \"%lfTFLOP/s\"  # %lld x %lld cores x %lld,%lld per cycle at %lf GHz", dtype,
                      &rate, &sockets, &cores, &thousands, &units, &clock) == 7)
        units += 1000 * thousands;
      else if (std::sscanf(text.c_str(), "%7s = \"%lfTFLOP/s\"  # %lld x %lld cores x %lld per cycle at %lf GHz", dtype,
                           &rate, &sockets, &cores, &units, &clock) != 6)
        continue;
      ++formulas;
      EXPECT_NEAR(rate * 1e3 / (static_cast<double>(sockets * cores * units) * clock), 1, 0.005) << file.name << line;
      // A core does at most 64 f32, 64 bf16 without tiles, 1,024 bf16 with them; 2,048 is of 8-bit integers.
      EXPECT_LE(units, std::string_view(dtype) == "f32" ? 64 : 1024) << file.name << line;
    }
  EXPECT_EQ(formulas, 4);
}

TEST(Machines, NamesAndNodesThatAreNoneAreRefused) {
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(message([] { find_cluster("h10"); }).find("did you mean 'h100'?"), std::string::npos);
  EXPECT_NE(message([] { find_cluster("h100.toml"); }).find("h100.toml"), std::string::npos);
  const Cluster node = read_cluster(source_dir() + "/examples/hardware/h100-node.toml");
  EXPECT_EQ(message([&] { with_nodes(node, 2); }),
            "--nodes 2: the network of '8 x H100 SXM' joins 1 nodes; add a [[network]] level to its file");
  const Cluster desk = read_cluster(source_dir() + "/examples/hardware/mixed-desk.toml");
  EXPECT_NE(message([&] { with_nodes(desk, 2); }).find("2 groups of nodes"), std::string::npos);
}

}  // namespace
}  // namespace tern
