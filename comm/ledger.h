#pragma once
// A ledger of the messages between two ranks: each end keeps their count, their total length and a CRC-32C over them. settle compares the ends.

#include <memory>

#include "comm/transport.h"

namespace tern {

/// The same transport with a ledger: keep_ledger and settle do what transport.h says. bytes() leaves out what settle itself exchanges.
/// Place   it must wrap the transport that may change a payload: the one that has the links, or a faulty one.
/// Cost    while a ledger is kept: a CRC-32C at each end of every message. settle sends two short messages to each rank.
std::unique_ptr<Transport> with_ledger(std::unique_ptr<Transport>);

}  // namespace tern
