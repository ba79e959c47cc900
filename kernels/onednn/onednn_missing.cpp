#include "base/bug.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {

void load_onednn() {}
std::string_view onednn_version() { return {}; }
bool onednn_is_held() { return false; }
bool onednn_can(DType) { return false; }
std::string_view onednn_instructions() { return {}; }
int64_t onednn_hidden_bytes(const OnednnProduct&) { return 0; }
int64_t onednn_scratch_bytes(const OnednnProduct&) { throw Bug("oneDNN is not built in"); }
void onednn_multiply(const OnednnProduct&, const void*, const void*, const void*, void*, std::span<std::byte>) {
  throw Bug("oneDNN is not built in");
}

}  // namespace tern
