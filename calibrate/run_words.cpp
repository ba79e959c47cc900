#include "calibrate/run_words.h"

#include <fmt/format.h>

namespace tern {

std::string model_words(const PublishedRun& r) {
  if (!r.model.empty()) return r.model;
  return fmt::format("width {}, {} layers", r.width, r.layers);
}

std::string job_words(const PublishedRun& r) {
  return fmt::format("{}, {} of {} tokens on {} devices{}", model_words(r), r.job.batch, r.job.seq, r.devices(),
                     r.product_rate > 1 ? " in 8 bits" : "");
}

}  // namespace tern
