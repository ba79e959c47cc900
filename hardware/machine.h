#pragma once
// Machine: the part of a cluster that the cost model reads.

#include <cstdint>
#include <vector>

#include "hardware/cluster.h"

namespace tern {

/// Equal nodes of a cluster, seen from one device: the levels of links from the inside out; the last level joins all devices.
struct Machine {
  DeviceType device;
  NodeType node;
  int64_t num_nodes = 0;
  std::vector<LinkLevel> levels;
  int64_t num_devices() const { return num_nodes * node.num_devices; }
  int64_t device_capacity() const { return device.memory_bytes - device.reserved_bytes; }
  int64_t host_capacity() const;  // per device: min(pinned_bytes, host_bytes − host_reserved_bytes) / node.num_devices
  int64_t disk_capacity() const;  // per device
  double price_per_hour(int64_t devices) const;
};

/// The machine of group `group` alone, with its links. Errors: TERN_CHECK for an index out of range.
Machine machine_of(const Cluster&, int group);
/// One machine for each type of node, with all nodes of the type wherever they stand in the file.
std::vector<Machine> machines_of(const Cluster&);

}  // namespace tern
