#pragma once
// A share of a task's data that is kept to be learned again.

#include <string>

namespace tern {

class Io;

/// Writes about `share` of the bytes of `data` to `to` (a path without its end) and returns the path: lines of JSONL as they are; of a
/// text stretches of whole lines of about a kilobyte, each a document; at least one. Which are kept depends on seed and place alone.
/// Errors: those of reading and writing.
std::string keep_share(const std::string& data, double share, uint64_t seed, const std::string& to, Io&);

}  // namespace tern
