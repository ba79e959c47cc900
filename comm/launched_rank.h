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
  int local_rank = 0, local_size = 1;  // among the processes of this machine; if no variable says it: rank, size
  std::string launcher;                // "torchrun", for messages
  HostPort store;  // the address of the run's store; ports store.port … store.port + more_ports are tried
  int more_ports = 0;
  bool serves_store = false;  // whether this process runs the store: rank 0, except under `tern launch`
  std::string token;          // the run's token: the store refuses clients with another one
};

/// Reads a process's place from its launcher's variables (docs/parallel.md has their names).
/// None    no launcher has started this process, so it is a world of its own.
/// Which   variables count: if TERN_STORE (tern launch) or TORCHELASTIC_RUN_ID (torchrun) is set, only RANK,
///         WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE; else the variables of all launchers, which must agree.
/// Store   TERN_STORE, if set; else in rank 0. Host: MASTER_ADDR; else 127.0.0.1 on one machine, or the first host of a
///         Slurm step. Port: MASTER_PORT + 1 (torchrun's own store has MASTER_PORT); without MASTER_PORT one from 20000
///         on, computed from the run's variables.
/// Errors  usage: a variable that is missing, no number or out of range, two that contradict each other, no address of rank 0
///         where ranks are on several machines.
std::optional<LaunchedRank> launched_rank_of(const std::map<std::string, std::string>& environment);

/// "node[01-03,07],login" → "node01". Source: Slurm's host lists.
std::string first_host(const std::string& list);

}  // namespace tern
