#pragma once
// Keeps a share of a task's data, so that later tasks learn from it again.

#include <string>

namespace tern {

class Io;

/// Writes about `share` (from 0 to 1) of the bytes of the file `data` to a new file and returns its path, which is `to` and an extension. Of
/// JSONL it keeps whole lines; of a text it keeps stretches of whole lines of about a kilobyte, each as a document. At least one is kept.
/// Which are kept depends on nothing but the seed and their place in the file. Errors: those of reading and writing.
std::string keep_share(const std::string& data, double share, uint64_t seed, const std::string& to, Io&);

}  // namespace tern
