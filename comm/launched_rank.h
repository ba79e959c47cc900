#pragma once
// A process's place among those of its run, as a launcher's variables say it: tern launch, torchrun, Slurm's srun, Open MPI's
// mpirun.

#include <map>
#include <optional>
#include <string>

#include "comm/socket.h"

namespace tern {

struct LaunchedRank {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the processes of this machine
  std::string launcher;                // "torchrun", for messages
  HostPort store;  // the address of the run's store; its port is the first of more_ports + 1 that are tried
  int more_ports = 0;
  bool serves_store = false;  // this process, rank 0, runs the store; else the launcher does
  std::string token;          // the run's token: clients with another are refused
};

/// Reads a process's place from its launcher's variables (docs/parallel.md has their names).
/// None    no launcher has started this process, so it is a world of its own.
/// Which   where tern launch (TERN_STORE) or torchrun (TORCHELASTIC_RUN_ID) set RANK, WORLD_SIZE, LOCAL_RANK and
///         LOCAL_WORLD_SIZE, only these count, whatever started that launcher; else all launchers' variables that are set must
///         agree.
/// Store   at TERN_STORE; without it in rank 0, on MASTER_ADDR (Slurm: the step's first host; one machine: 127.0.0.1) and a port
///         after MASTER_PORT, never on it: torchrun's own store listens there.
/// Errors  usage: a variable that is missing, no number or out of range, two that contradict each other, no address of rank 0
///         where ranks are on several machines.
std::optional<LaunchedRank> launched_rank_of(const std::map<std::string, std::string>& environment);

/// "node[01-03,07],login" → "node01". Source: Slurm's host lists.
std::string first_host(const std::string& list);

}  // namespace tern
