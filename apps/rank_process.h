#pragma once
// This process as one rank of a run that a launcher started.

#include <functional>
#include <memory>
#include <optional>

#include "base/options.h"
#include "comm/comm.h"
#include "comm/launched_rank.h"

namespace tern {

/// What a launcher said, if it started several processes. Errors: usage, as launched_rank_of.
std::optional<LaunchedRank> launched_rank();

/// The environment with the launcher's number of ranks as TERN_RANKS, where that is not set.
Environment with_launched_ranks(Environment);

/// What carries messages between ranks that are processes.
enum class Carrier : uint8_t { tcp, mpi };

/// Joins the run and works. Who throws tells the others why; what others did wrong is thrown here.
/// Errors  peer: a rank was lost, or is silent for longer than silence_s; usage: those of make_mpi_transport; the work's own.
void run_as_rank(const LaunchedRank&, Carrier, double silence_s,
                 const std::function<void(std::shared_ptr<Comm>)>& work);

}  // namespace tern
