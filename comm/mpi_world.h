#pragma once
// Ranks as processes that mpirun has started: they send messages by MPI, but still learn of failures from the store (comm/store.h).

#include <memory>
#include <string>

#include "comm/store.h"
#include "comm/transport.h"

namespace tern {

/// Why this program cannot send messages by MPI, and the remedy: it was built without MPI, or Open MPI's library is missing. "": it can.
std::string why_no_mpi();

/// Makes the transport of the rank as which the client joined the store; mpirun must have given this process the same rank. Every rank
/// of the run calls it, once in its life. Collectives over it have the same bits and the same byte counts as over any other transport.
/// Messages  carry their length, their number on the link and CRC-32Cs, as messages over TCP do.
/// Waits     try again and again. Between tries they ask the store for failures; after a while without messages they also sleep.
/// Errors    usage: why_no_mpi; a rank or size other than mpirun's. peer: an MPI call fails; the message has MPI's error text.
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<StoreClient>, const StoreRank&);

}  // namespace tern
