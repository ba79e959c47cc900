#include "adapt/stream_places.h"

#include <fmt/format.h>

namespace tern {

std::string StreamPlaces::directory(size_t t) const {
  return of_stream(fmt::format("{:02}-{}", t + 1, s.tasks[t].name));
}

}  // namespace tern
