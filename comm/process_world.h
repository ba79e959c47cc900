#pragma once
// Ranks as processes, on one machine or several: a transport over TCP. The ranks find each other through a store (comm/store.h), and
// every rank is connected to every other.

#include <memory>

#include "comm/store.h"
#include "comm/transport.h"

namespace tern {

/// Makes the transport of the rank as which the client joined the store. All ranks of the run call it; it returns when all are connected.
/// Messages  carry their length, their number on the link and CRC-32Cs. A message that was lost, repeated or (unless a ledger is kept,
///           keep_ledger) changed in transit is an error, which names it. Messages leave while their sender sends, waits or flushes; a flush returns when the
///           system has all of them.
/// Waits     end with an error when the store reports a failure, or when a link is closed.
/// Errors    peer; usage: the store refused some rank.
std::unique_ptr<Transport> make_process_transport(std::shared_ptr<StoreClient>, const StoreRank&);

}  // namespace tern
