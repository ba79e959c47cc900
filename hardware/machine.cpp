#include "hardware/machine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace tern {

int64_t Machine::host_capacity() const {
  return std::min(node.host_bytes - node.host_reserved_bytes, node.pinned_bytes) / node.num_devices;
}
int64_t Machine::disk_capacity() const { return (node.disk_bytes - node.disk_reserved_bytes) / node.num_devices; }
double Machine::price_per_hour(int64_t used) const {
  return (device.price_per_hour + node.price_per_hour / static_cast<double>(node.num_devices)) *
         static_cast<double>(used);
}

Machine machine_of(const Cluster& c, int group) {
  TERN_CHECK(group >= 0 && group < static_cast<int>(c.groups.size()), "machine_of: group {}", group);
  const NodeGroup& g = c.groups[static_cast<size_t>(group)];
  Machine m;
  m.node = c.nodes[static_cast<size_t>(g.node)];
  m.device = c.devices[static_cast<size_t>(m.node.device)];
  m.num_nodes = g.count;
  m.levels.push_back(m.node.link);
  for (const NetworkLevel& level : c.network) {
    m.levels.push_back({level.name, std::min(level.nodes, g.count) * m.node.num_devices,
                        m.node.network / level.oversubscription / static_cast<double>(m.node.num_devices),
                        level.latency_ps});
    if (level.nodes >= g.count) break;
  }
  return m;
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

}  // namespace tern
