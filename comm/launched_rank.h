#pragma once
// The place of a process among the processes of its run, as the environment variables of its launcher give it: tern launch, torchrun,
// Slurm's srun, Open MPI's mpirun.

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
  bool serves_store = false;  // whether this process runs the store: rank 0 does, except under `tern launch`
  std::string token;          // the run's token: the store refuses clients with another one
};

/// Reads a process's place from its launcher's variables (docs/parallel.md has their names).
/// None       no launcher has started this process, so it is the only rank of its world.
/// Variables  if TERN_STORE (tern launch) or TORCHELASTIC_RUN_ID (torchrun) is set, only RANK, WORLD_SIZE, LOCAL_RANK and
///            LOCAL_WORLD_SIZE count; else the variables of all launchers count, and they must agree.
/// Store      at TERN_STORE, if that is set; else rank 0 runs the store. Its host is then MASTER_ADDR; without that, 127.0.0.1 if all
///            ranks are on one machine, or the first host of a Slurm step. Its port is MASTER_PORT + 1 (torchrun's own store has
///            MASTER_PORT); without MASTER_PORT, a port from 20000 on, computed from the run's variables.
/// Errors     usage: a variable is missing, not a number or out of range; two variables contradict each other; ranks are on several
///            machines, and no variable gives the address of rank 0.
std::optional<LaunchedRank> launched_rank_of(const std::map<std::string, std::string>& environment);

/// The first host of a list in Slurm's form: "node[01-03,07],login" → "node01".
std::string first_host(const std::string& list);

}  // namespace tern
