#include "plan/train_job.h"

namespace tern {

std::string_view name_of(Batching b) { return b == Batching::packed ? "packed" : "padded"; }

}  // namespace tern
