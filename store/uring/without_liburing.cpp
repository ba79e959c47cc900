// Built where liburing is not: says so.
#include "store/uring_reads.h"

namespace tern {

std::string uring_refusal() { return "tern was built without io_uring (liburing-dev); threads read instead"; }

std::unique_ptr<UringReads> make_uring_reads() { return nullptr; }

}  // namespace tern
