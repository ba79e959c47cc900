#pragma once
// A machine as tern profile describes one, for tests of plans.

#include <cstdint>
#include <string_view>

#include "hardware/cluster.h"

namespace tern {

// The file of a machine with rates of tern's own engine: one device, offloads to host and disk.
inline constexpr std::string_view kMachineOfTern = R"(version = 1
name = "here"
[device.cpu]
engine = "tern"
memory = "4GB"
reserved = "0GB"
memory_bandwidth = "20GB/s"
memory_share = 1
launch = "1us"
peak = { f32 = "500GFLOP/s", bf16 = "1TFLOP/s" }
attention = { forward = 0.2, backward = 0.2 }
[[device.cpu.matmul]]
dtype = "f32"
tile = [1, 1, 1]
curve = { top = 0.9, rows = 10, columns = 10, depth = 10 }
[[device.cpu.matmul]]
dtype = "bf16"
tile = [1, 1, 1]
curve = { top = 0.9, rows = 10, columns = 10, depth = 10 }
[node.this]
device = "cpu"
devices = 1
host_memory = "4GB"
host_reserved = "4GB"
host_bandwidth = "10GB/s"
disk = "1000GB"
disk_read = "1GB/s"
disk_write = "1GB/s"
host_link = { bandwidth = "5GB/s", share = 1, latency = "0us" }
link = { name = "loopback", bandwidth = "1GB/s", share = 1, latency = "5us" }
network = { bandwidth = "1GB/s", share = 1 }
[[nodes]]
node = "this"
count = 1
)";

// `disk_read` and `disk_write` are in bytes/s.
inline Cluster machine_of_tern(int64_t memory_bytes, double disk_read = 1e9, double disk_write = 5e8) {
  Cluster c = parse_cluster(kMachineOfTern, "here.toml");
  c.devices[0].memory_bytes = memory_bytes;
  c.nodes[0].disk_read = disk_read, c.nodes[0].disk_write = disk_write;
  return c;
}

}  // namespace tern
