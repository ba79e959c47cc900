#include "calibrate/run_words.h"

#include <fmt/format.h>

#include "spec/recompute.h"

namespace tern {

std::string model_words(const PublishedRun& r) {
  if (!r.model.empty()) return r.model;
  return fmt::format("width {}, {} layers", r.width, r.layers);
}

std::string job_words(const PublishedRun& r) {
  return fmt::format("{}, {} of {} tokens on {} devices{}", model_words(r), r.job.batch, r.job.seq, r.devices(),
                     r.traits.product_rate > 1 ? " in 8 bits" : "");
}

std::string run_words(const PublishedRun& r) {
  const FrameworkTraits& t = r.traits;
  std::string words = to_string(r.choice);
  if (r.strategy.zero) words += fmt::format(", zero {}", r.strategy.zero);
  if (r.part != PartRecompute::none)
    words += fmt::format(", recompute {}", name_of(r.part));
  else if (r.strategy.recompute != Recompute::full)
    words += fmt::format(", recompute {}", name_of(r.strategy.recompute));
  if (!t.sequence_parallel) words += ", norms of all rows";
  if (r.job.tensor_overlap) words += ", tensor overlap";
  if (t.hides_input_gradient_sums) words += ", tensor overlap of gradients";
  if (t.sums != GradientSums::passes) words += t.sums == GradientSums::apart ? ", sums apart" : ", sums in products";
  if (t.gathers_weights_beside && (r.strategy.zero == 1 || r.strategy.zero == 2)) words += ", gathers beside";
  if (t.gathers_context && r.choice.mesh.context > 1) words += ", context gathered";
  return words;
}

}  // namespace tern
