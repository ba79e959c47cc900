#pragma once
// The simulator's clock where the devices of a machine share its cores: a device that waits leaves its core to the others.

#include <cstdint>
#include <span>

#include "program/simulate.h"

namespace tern {

/// Devices that share cores, as ranks that are threads or processes of one machine do (NodeType::devices_at_once).
struct SharedCores {
  int64_t devices = 1;  // among which the rates were shared out that the times of instructions follow from
  double at_once = 1;   // of them can compute at the same time without slowing each other down; read to 1/1024
};

/// As `simulate` with times, but on shared cores.
/// Times  `picoseconds`: of each instruction with all devices at work. While k instructions run, each of them advances
///        min(devices / k, devices / at_once) times as fast. Every instruction that takes time counts, whatever its
///        resource: messages and sums are work of the cores too. An instruction of a list counts once for each rank
///        that runs the list (Program::devices_per_rank).
/// Errors TERN_CHECK: those of simulate; at_once not from 1 to devices.
Simulation simulate(const Program&, std::span<const int64_t> picoseconds, const SharedCores&);

}  // namespace tern
