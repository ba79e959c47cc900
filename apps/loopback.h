#pragma once
// Tasks of `tern profile` that send messages over TCP on 127.0.0.1.

#include "apps/bench.h"

namespace tern {

/// Bytes/s and calls/s of one connection between two threads.
BenchTask loopback_bandwidth_task();
BenchTask loopback_call_task();

}  // namespace tern
