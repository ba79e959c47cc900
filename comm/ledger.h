#pragma once
// A ledger of what two ranks have exchanged: both ends keep the number, length and CRC-32C of the messages between them, and compare.

#include <memory>

#include "comm/transport.h"

namespace tern {

/// The same transport with a ledger: keep_ledger and settle do what transport.h says. What settle itself exchanges is not in bytes().
/// Place   above whatever may change a payload: a link's wires, a faulty transport.
/// Cost    while it is kept: a CRC-32C at each end of every message. A settle is two short messages to each rank.
std::unique_ptr<Transport> with_ledger(std::unique_ptr<Transport>);

}  // namespace tern
