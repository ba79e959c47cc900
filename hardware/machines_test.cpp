#include "hardware/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {
namespace {

TEST(Machines, EveryFileOfTheFolderIsInTheProgramAndReads) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TERN_SOURCE_DIR "/hardware/machines")) {
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

TEST(Machines, EveryFigureSaysItsSource) {
  for (const MachineFile& file : machine_files()) {
    std::string table;
    for (const std::string_view line : split(file.toml, '\n')) {
      if (line.starts_with("[")) table = line;
      const size_t equals = line.find(" = ");
      if (equals == std::string_view::npos || line.starts_with("#")) continue;
      const std::string_view key = line.substr(0, equals);
      static constexpr std::string_view kNoFigure[] = {"version", "name", "device", "devices", "dtype",
                                                       "tile",    "node", "nodes",  "count",   "latency"};
      if (std::find(std::begin(kNoFigure), std::end(kNoFigure), key) != std::end(kNoFigure)) continue;
      EXPECT_TRUE(line.find('#') != std::string_view::npos || table.find('#') != std::string::npos)
          << file.name << ": " << line;
    }
  }
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
  const Cluster node = read_cluster(TERN_SOURCE_DIR "/examples/hardware/h100-node.toml");
  EXPECT_EQ(message([&] { with_nodes(node, 2); }),
            "--nodes 2: the network of '8 x H100 SXM' joins 1 nodes; add a [[network]] level to its file");
  const Cluster desk = read_cluster(TERN_SOURCE_DIR "/examples/hardware/mixed-desk.toml");
  EXPECT_NE(message([&] { with_nodes(desk, 2); }).find("2 groups of nodes"), std::string::npos);
}

}  // namespace
}  // namespace tern
