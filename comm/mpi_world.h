#pragma once
// Ranks as processes that mpirun has started: messages by MPI. The store (comm/store.h) stays the place where ranks learn of failures.

#include <memory>
#include <string>

#include "comm/store.h"
#include "comm/transport.h"

namespace tern {

/// Why this program cannot send messages by MPI, with the remedy, or "": built without it, or Open MPI's library is not there.
std::string why_no_mpi();

/// Makes the transport of the rank that the client joined as, which must be the rank that mpirun gave. All ranks of the run call it,
/// each once in its life. Collectives above it are those of every transport, so their bits and bytes are the same.
/// Messages  carry their length, their number on the link and CRC-32Cs, as those over TCP do.
/// Waits     look whether the store tells of a failure, between tries; they sleep when nothing comes for a while.
/// Errors    usage: why_no_mpi; another rank or size than mpirun's; peer: what MPI says of a call.
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<StoreClient>, const StoreRank&);

}  // namespace tern
