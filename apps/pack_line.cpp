#include "apps/pack_line.h"

#include "apps/signals.h"

namespace tern {

bool PackLine::update(void* self, int64_t bytes_done, int64_t bytes_total) {
  auto& me = *static_cast<PackLine*>(self);
  constexpr int64_t kKiB = 1024;
  if (stop_requested()) return false;
  if (bytes_total != me.total_) me.finish();  // the next file
  me.total_ = bytes_total;
  if (!me.line_) {
    if (seconds_between(me.begin_ns_, real_clock().now_ns()) < 1) return true;
    me.line_ = std::make_unique<Progress>("tokenize", bytes_total / kKiB, real_clock(), ProgressOptions{}, "KiB");
  }
  me.line_->update(bytes_done / kKiB);
  return true;
}

void PackLine::finish() {
  if (line_) line_->finish();
  line_.reset();
}

}  // namespace tern
