#pragma once
// The progress line that shows while a text is packed.

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/progress.h"
#include "formats/data/pack.h"

namespace tern {

/// The line appears only if packing takes more than a second. Packing stops if a stop is requested (apps/signals.h).
class PackLine {
 public:
  /// Options of packing that report to this line, which must outlive the packing.
  PackOptions options() { return {.progress = &PackLine::update, .context = this}; }
  /// Ends the line, if it is there.
  void finish();

 private:
  static bool update(void* self, int64_t bytes_done, int64_t bytes_total);
  int64_t begin_ns_ = real_clock().now_ns(), total_ = 0;
  std::unique_ptr<Progress> line_;
};

}  // namespace tern
