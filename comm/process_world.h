#pragma once
// Ranks as processes: a transport over TCP, on one machine or several. The ranks find each other through a store
// (comm/store.h) and are connected each with each.

#include <memory>

#include "comm/store.h"
#include "comm/transport.h"

namespace tern {

/// Makes the transport of the rank that the client joined as. All ranks of the run call it; it returns when all are connected.
/// Messages  carry their length, their number on the link and CRC-32Cs: one that was lost, repeated or changed on its way is an
///           error that names it. What is sent goes out while this rank sends, waits or flushes; a flush returns when the
///           system has all of it.
/// Waits     end with an error when the store tells of a failure, or a link is gone.
/// Errors    peer; usage where the store refused somebody.
std::unique_ptr<Transport> make_process_transport(std::shared_ptr<StoreClient>, const StoreRank&);

}  // namespace tern
