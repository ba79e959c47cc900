#include "infer/embedding_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "kernels/cpu/matmul.h"

namespace tern {
namespace {

// Tokens of the largest batch.
int64_t largest_batch(std::span<const std::vector<int32_t>> texts, int64_t batch) {
  int64_t largest = 0;
  for (size_t first = 0; first < texts.size(); first += static_cast<size_t>(batch)) {
    int64_t tokens = 0;
    for (size_t i = first; i < std::min(texts.size(), first + static_cast<size_t>(batch)); ++i)
      tokens += static_cast<int64_t>(texts[i].size());
    largest = std::max(largest, tokens);
  }
  return largest;
}

struct EmbeddingFit {
  InferenceFit model;
  int64_t pooler = 0, batch = 0;
  int64_t peak() const { return std::max(model.loading_peak, model.peak() + pooler + batch); }
};

EmbeddingFit fit_of(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                    const EmbeddingSettings& settings) {
  const EmbeddingNeeds needs = embedding_needs(spec, dtype, texts, settings);
  return {inference_fit(spec, dtype, needs.model), needs.pooler, needs.batch};
}

}  // namespace

EmbeddingNeeds embedding_needs(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                               const EmbeddingSettings& settings) {
  const int64_t D = spec.width, s = size_of(dtype), batch = texts_at_a_time(spec, settings);
  const int64_t at_once = std::min(batch, static_cast<int64_t>(texts.size())), rows = largest_batch(texts, batch);
  EmbeddingNeeds needs;
  needs.model = {.context = 1,
                 .sequences = 0,
                 .iteration_tokens = rows,
                 .logit_rows = 0,
                 .positions = rows,
                 .adapters = {},
                 .vectors = true};
  needs.batch = at_once * D * (8 + 4 + 4);  // doubles, floats, and the vector of floats grows by copying
  if (settings.pooling == Pooling::pooler)
    needs.pooler = (D * D + D) * s + (dtype == DType::f64 ? 0 : packed_bytes(dtype, D, D)) + 2 * at_once * D * s;
  return needs;
}

int64_t embedding_peak(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                       const EmbeddingSettings& settings) {
  return fit_of(spec, dtype, texts, settings).peak();
}

int64_t embedding_beside(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                         const EmbeddingSettings& settings) {
  return fit_of(spec, dtype, texts, settings).model.beside;
}

void check_embedding_fit(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                         const EmbeddingSettings& settings, int64_t kept, const MemoryBudget& budget) {
  const EmbeddingFit fit = fit_of(spec, dtype, texts, settings);
  const int64_t needed = fit.peak() + fit.model.beside + kept;
  if (needed <= budget.bytes) return;
  EmbeddingSettings one = settings;
  one.batch = 1;
  std::vector<std::string> fits;
  const auto consider = [&](const EmbeddingSettings& other, DType type, const char* flags) {
    const EmbeddingFit changed = fit_of(spec, type, texts, other);
    if (const int64_t peak = changed.peak() + changed.model.beside + kept; peak <= budget.bytes)
      fits.push_back(fmt::format("  {} ({})", flags, format_bytes(peak)));
  };
  if (texts_at_a_time(spec, settings) > 1) consider(one, dtype, "--batch 1");
  if (size_of(dtype) > 2) consider(settings, DType::bf16, "--dtype bf16");
  if (size_of(dtype) > 2 && texts_at_a_time(spec, settings) > 1) consider(one, DType::bf16, "--dtype bf16 --batch 1");
  if (const std::string more = memory_remedy(budget, needed); !more.empty())
    fits.push_back(fmt::format("  {} or more", more));
  throw Error(ErrorKind::does_not_fit,
              "the model does not fit: it needs {}, there are {} ({})\n  weights {}, activations {}, vectors {}; while "
              "loading {}\n{}",
              format_bytes(needed), format_bytes(budget.bytes), budget.source,
              format_bytes(fit.model.weights + fit.pooler), format_bytes(fit.model.running()),
              format_bytes(fit.batch + kept), format_bytes(fit.model.loading_peak),
              fits.empty() ? "  no setting of this model fits here; take a smaller model or a machine with more memory"
                           : fmt::format("  what would fit:\n{}", fmt::join(fits, "\n")));
}

}  // namespace tern
