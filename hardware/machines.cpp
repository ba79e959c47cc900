#include "hardware/machines.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {

std::string cluster_text(const std::string& path_or_name) {
  const std::string wanted = lowercase(path_or_name);
  std::vector<std::string_view> names;
  std::vector<std::string> kinds;  // of one device: "a100" is two
  for (const MachineFile& file : machine_files()) {
    names.push_back(file.name);
    if (file.name.starts_with(wanted + "-")) kinds.push_back(fmt::format("'{}'", file.name));
  }
  for (const MachineFile& file : machine_files())
    if (file.name == wanted && !real_io().stat(path_or_name)) return std::string(file.toml);
  if (path_or_name.find_first_of("/.") == std::string::npos && !real_io().stat(path_or_name))
    throw Error(ErrorKind::bad_file, "{}: neither a cluster file nor one of the ready machines ({}){}",
                make_printable(path_or_name), join({names.begin(), names.end()}, ", "),
                kinds.empty() ? did_you_mean(path_or_name, names) : "; did you mean " + join(kinds, " or ") + "?");
  return real_io().read(path_or_name);
}

Cluster find_cluster(const std::string& path_or_name) {
  const bool is_file = real_io().stat(path_or_name).has_value();
  return parse_cluster(cluster_text(path_or_name), is_file ? path_or_name : "machine " + path_or_name);
}

std::vector<Machine> machines_of(const Cluster& cluster) {
  std::map<int, int64_t> counts;
  for (const NodeGroup& g : cluster.groups) counts[g.node] += g.count;
  std::vector<Machine> machines;
  for (const auto& [node, count] : counts) {
    Cluster alone = cluster;
    alone.groups = {{node, count}};
    machines.push_back(machine_of(alone, 0));
  }
  return machines;
}

Cluster with_nodes(Cluster cluster, int64_t nodes) {
  if (cluster.groups.size() != 1)
    throw Error(ErrorKind::usage, "--nodes {}: '{}' has {} groups of nodes; give their counts in the file", nodes,
                cluster.name, cluster.groups.size());
  const int64_t joined = cluster.network.empty() ? 1 : cluster.network.back().nodes;
  if (nodes > joined)
    throw Error(ErrorKind::usage, "--nodes {}: the network of '{}' joins {} nodes; add a [[network]] level to its file",
                nodes, cluster.name, joined);
  if (nodes != cluster.groups[0].count) cluster.name = fmt::format("{} nodes of: {}", nodes, cluster.name);
  cluster.groups[0].count = nodes;
  return cluster;
}

}  // namespace tern
