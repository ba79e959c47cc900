#pragma once
// This process as one rank of a run that a launcher started.

#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/options.h"
#include "comm/comm.h"
#include "comm/launched_rank.h"

namespace tern {

/// The rank that a launcher's variables describe; none if this process is a run of its own. Errors: those of launched_rank_of.
std::optional<LaunchedRank> launched_rank();

/// The environment, with TERN_RANKS set to the launcher's number of ranks if it is not set.
Environment with_launched_ranks(Environment);

/// What carries messages between ranks that are processes.
enum class Carrier : uint8_t { tcp, mpi };

/// Thrown in place of an Error that rank 0 tells too: this process is to end with the code of `kind`, and to say no more than that
/// rank 0 tells.
struct ToldByFirstRank {
  ErrorKind kind;
};

/// Joins the run and calls `work`. If `work` throws, the other ranks are told why; if another rank fails, this throws. Rank 0 warns of two
/// ranks that are the same one of a machine.
/// Until all ranks are connected a signal ends the process (EndSignals); `work` may make a StopSignals of its own.
/// Errors  peer: a rank was lost, or is silent for longer than silence_s seconds; usage: no such host, a taken port; those of another
///         rank's failure, of make_mpi_transport and of `work`. ToldByFirstRank in their place on other ranks than 0 where rank 0 fails with
///         the same error, has failed by itself, or hears of the same bad settings.
void run_as_rank(const LaunchedRank&, Carrier, double silence_s,
                 const std::function<void(std::shared_ptr<Comm>)>& work);

}  // namespace tern
