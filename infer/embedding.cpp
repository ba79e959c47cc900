#include "infer/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "infer/load.h"
#include "kernels/cpu/matmul.h"
#include "model/linear.h"
#include "model/not_finite.h"
#include "model/ops.h"

namespace tern {
namespace {

// Row r of x, widened.
void add_row(const Tensor& x, int64_t r, double factor, std::vector<double>& sum) {
  const int64_t width = x.shape()[1];
  ops::by_dtype(x.dtype(), [&]<class T>() {
    const auto row = x.span<T>().subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
    for (size_t i = 0; i < row.size(); ++i) {
      if constexpr (std::is_same_v<T, bf16>)
        sum[i] += factor * static_cast<double>(to_float(row[i]));
      else
        sum[i] += factor * static_cast<double>(row[i]);
    }
  });
}

std::vector<double> row_of(const Tensor& x, int64_t r) {
  std::vector<double> row(static_cast<size_t>(x.shape()[1]));
  add_row(x, r, 1, row);
  return row;
}

// The rows [begin, end) of one text, to one.
std::vector<double> pooled(const Tensor& x, int64_t begin, int64_t end, Pooling pooling) {
  const auto n = static_cast<double>(end - begin);
  if (pooling == Pooling::cls || pooling == Pooling::pooler) return row_of(x, begin);
  if (pooling == Pooling::last) return row_of(x, end - 1);
  std::vector<double> result =
      pooling == Pooling::max ? row_of(x, begin) : std::vector<double>(static_cast<size_t>(x.shape()[1]));
  for (int64_t r = begin; r < end; ++r) {
    if (pooling == Pooling::max) {
      const std::vector<double> row = row_of(x, r);
      for (size_t i = 0; i < row.size(); ++i)
        if (row[i] > result[i] || std::isnan(row[i])) result[i] = row[i];  // NaN stays, as in torch
    } else {
      add_row(x, r, pooling == Pooling::weighted_mean ? static_cast<double>(r - begin + 1) : 1, result);
    }
  }
  const double by = pooling == Pooling::mean            ? n
                    : pooling == Pooling::mean_sqrt     ? std::sqrt(n)
                    : pooling == Pooling::weighted_mean ? n * (n + 1) / 2
                                                        : 1;
  for (double& sum : result) sum /= by;
  return result;
}

// tanh(W·row + b) of the first token of each text, one product for the whole batch.
void take_through_pooler(const Linear& pooler, std::span<const int32_t> firsts, const Tensor& x, const Compute& c,
                         std::vector<std::vector<double>>& vectors) {
  const auto num = static_cast<int64_t>(firsts.size());
  const Tensor rows = c.arena.allocate(x.dtype(), {num, x.shape()[1]}, MemoryClass::workspace);
  const Tensor out = c.arena.allocate(x.dtype(), {num, pooler.out}, MemoryClass::workspace);
  ops::gather_rows(x, firsts, rows);
  linear_forward(pooler, rows, out, c);
  for (int64_t i = 0; i < num; ++i) {
    std::vector<double>& v = vectors[static_cast<size_t>(i)];
    v = row_of(out, i);
    for (double& value : v) value = std::tanh(value);
  }
}

void append(std::vector<double> vector, bool normalize, std::vector<float>& out) {
  if (normalize) {
    double squares = 0;
    for (const double v : vector) squares += v * v;
    if (squares > 0)
      for (double& v : vector) v /= std::sqrt(squares);
  }
  for (const double v : vector) out.push_back(static_cast<float>(v));
}

// Frequencies that depend on a sequence's length are each text's own.
bool has_own_table(const ModelSpec& spec) {
  return spec.rope.kind == RopeKind::dynamic || spec.rope.kind == RopeKind::longrope;
}
int64_t batch_of(const ModelSpec& spec, const EmbeddingSettings& settings) {
  return has_own_table(spec) ? 1 : settings.batch;
}

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
  int64_t pooler = 0, batch = 0;  // the matrix and its packed copy; the vectors of a batch
  int64_t peak() const { return std::max(model.loading_peak, model.peak() + pooler + batch); }
};

EmbeddingFit fit_of(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                    const EmbeddingSettings& settings) {
  const int64_t D = spec.width, s = size_of(dtype), batch = batch_of(spec, settings);
  const int64_t at_once = std::min(batch, static_cast<int64_t>(texts.size()));
  EmbeddingFit fit;
  const int64_t rows = largest_batch(texts, batch);
  const InferenceNeeds needs{
      .context = 1, .sequences = 0, .iteration_tokens = rows, .logit_rows = 0, .positions = rows};
  fit.model = inference_fit(spec, dtype, needs);
  // No logits are made; the rows are normed once more where the model ends in a norm.
  fit.model.logits = spec.head().norm.present() ? needs.iteration_tokens * D * s : 0;
  fit.batch = at_once * D * (8 + 4 + 4);  // doubles, floats, and the vector of floats grows by copying
  if (settings.pooling == Pooling::pooler)
    fit.pooler = (D * D + D) * s + (dtype == DType::f64 ? 0 : packed_bytes(dtype, D, D)) + 2 * at_once * D * s;
  return fit;
}

}  // namespace

void embed_texts(const ModelSpec& spec, const ModelWeights& weights, const Linear* pooler,
                 std::span<const std::vector<int32_t>> texts, const EmbeddingSettings& settings, Arena& arena,
                 const VectorSink& sink) {
  TERN_CHECK((settings.pooling == Pooling::pooler) == (pooler != nullptr),
             "embed: pooler without its pooling, or the other way");
  int64_t longest = 1;
  for (const auto& ids : texts) {
    TERN_CHECK(!ids.empty(), "embed: a text without tokens");
    longest = std::max(longest, static_cast<int64_t>(ids.size()));
  }
  const Compute c{arena, Multiply::exact};
  const bool own_table = has_own_table(spec);
  RopeTable rope;
  if (spec.turns() && !own_table) rope = rope_table(spec, longest, longest);
  const auto batch = static_cast<size_t>(batch_of(spec, settings));
  for (size_t first = 0; first < texts.size(); first += batch) {
    const auto part = texts.subspan(first, std::min(batch, texts.size() - first));
    std::vector<int32_t> tokens, firsts;
    std::vector<int64_t> starts{0};
    for (const auto& ids : part) {
      firsts.push_back(static_cast<int32_t>(tokens.size()));
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      starts.push_back(static_cast<int64_t>(tokens.size()));
    }
    if (own_table) rope = rope_table(spec, starts.back(), starts.back());
    const Rows rows = make_rows(tokens, starts, spec.turns() ? &rope : nullptr);
    Tensor x = model_forward(spec, weights, rows, nullptr, c);
    if (const NormSpec& norm = spec.head().norm; norm.present()) {
      const Tensor normed = arena.allocate(x.dtype(), x.shape(), MemoryClass::workspace);
      ops::norm(norm, head_of(weights).norm, x, normed, {}, {});
      x = normed;
    }
    std::vector<std::vector<double>> vectors(part.size());
    for (size_t i = 0; i < part.size(); ++i) vectors[i] = pooled(x, starts[i], starts[i + 1], settings.pooling);
    if (pooler) take_through_pooler(*pooler, firsts, x, c, vectors);
    std::vector<float> out;
    out.reserve(part.size() * static_cast<size_t>(spec.width));
    for (size_t i = 0; i < part.size(); ++i) {
      append(std::move(vectors[i]), settings.normalize, out);
      const auto vector = std::span(out).last(static_cast<size_t>(spec.width));
      if (!std::ranges::all_of(vector, [](float v) { return std::isfinite(v); }))
        throw NotFinite(
            "embed: the vector of text {} of {} holds NaN or infinity; what the model computes leaves the range of {}",
            first + i + 1, texts.size(), name_of(x.dtype()));
    }
    if (!sink(static_cast<int64_t>(first), out))
      throw Error(ErrorKind::interrupted, "embed: stopped on request after {} of {} texts", first + part.size(),
                  texts.size());
  }
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
  if (batch_of(spec, settings) > 1) consider(one, dtype, "--batch 1");
  if (size_of(dtype) > 2) consider(settings, DType::bf16, "--dtype bf16");
  if (size_of(dtype) > 2 && batch_of(spec, settings) > 1) consider(one, DType::bf16, "--dtype bf16 --batch 1");
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
