#include "infer/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "infer/load.h"
#include "model/linear.h"
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
      for (size_t i = 0; i < row.size(); ++i) result[i] = std::max(result[i], row[i]);
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

}  // namespace

std::vector<float> embed_texts(const ModelSpec& spec, const ModelWeights& weights, const Linear* pooler,
                               std::span<const std::vector<int32_t>> texts, const EmbeddingSettings& settings,
                               Arena& arena, const std::function<bool(int64_t)>& on_batch) {
  TERN_CHECK((settings.pooling == Pooling::pooler) == (pooler != nullptr),
             "embed: pooler without its pooling, or the other way");
  int64_t longest = 1;
  for (const auto& ids : texts) {
    TERN_CHECK(!ids.empty(), "embed: a text without tokens");
    longest = std::max(longest, static_cast<int64_t>(ids.size()));
  }
  const Compute c{arena, Multiply::exact};
  // Frequencies that depend on a sequence's length are each text's own.
  const bool own_table = spec.rope.kind == RopeKind::dynamic || spec.rope.kind == RopeKind::longrope;
  RopeTable rope;
  if (spec.turns() && !own_table) rope = rope_table(spec, longest, longest);
  std::vector<float> out;
  out.reserve(texts.size() * static_cast<size_t>(spec.width));
  const size_t batch = own_table ? 1 : static_cast<size_t>(settings.batch);
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
      ops::norm(norm, weights.head.norm, x, normed, {}, {});
      x = normed;
    }
    std::vector<std::vector<double>> vectors(part.size());
    for (size_t i = 0; i < part.size(); ++i) vectors[i] = pooled(x, starts[i], starts[i + 1], settings.pooling);
    if (pooler) take_through_pooler(*pooler, firsts, x, c, vectors);
    for (std::vector<double>& v : vectors) append(std::move(v), settings.normalize, out);
    const auto done = static_cast<int64_t>(first + part.size());
    if (on_batch && !on_batch(done))
      throw Error(ErrorKind::interrupted, "embed: stopped on request after {} of {} texts", done, texts.size());
  }
  return out;
}

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

void check_embedding_fit(const ModelSpec& spec, DType dtype, std::span<const std::vector<int32_t>> texts,
                         const EmbeddingSettings& settings, int64_t memory_bytes, const std::string& memory_source) {
  const auto fit_of = [&](int64_t batch, DType type) {
    InferenceNeeds needs{
        .context = 1, .sequences = 0, .iteration_tokens = largest_batch(texts, batch), .logit_rows = 0};
    InferenceFit fit = inference_fit(spec, type, needs);
    // No logits are made; the rows are normed once more where the model ends in a norm.
    fit.logits = spec.head().norm.present() ? needs.iteration_tokens * spec.width * size_of(type) : 0;
    return fit;
  };
  const InferenceFit fit = fit_of(settings.batch, dtype);
  const int64_t result = static_cast<int64_t>(texts.size()) * spec.width * 4;
  if (fit.peak() + result <= memory_bytes) return;
  std::vector<std::string> fits;
  const auto consider = [&](int64_t batch, DType type, const char* flags) {
    if (const int64_t peak = fit_of(batch, type).peak() + result; peak <= memory_bytes)
      fits.push_back(fmt::format("  {} ({})", flags, format_bytes(peak)));
  };
  if (settings.batch > 1) consider(1, dtype, "--batch 1");
  if (size_of(dtype) > 2) consider(settings.batch, DType::bf16, "--dtype bf16");
  if (size_of(dtype) > 2 && settings.batch > 1) consider(1, DType::bf16, "--dtype bf16 --batch 1");
  throw Error(ErrorKind::does_not_fit,
              "the model does not fit: it needs {}, there are {} ({})\n  weights {}, activations {}, vectors {}; while "
              "loading {}\n{}",
              format_bytes(fit.peak() + result), format_bytes(memory_bytes), memory_source, format_bytes(fit.weights),
              format_bytes(fit.activations + fit.logits), format_bytes(result), format_bytes(fit.loading_peak),
              fits.empty() ? "  no setting of this model fits here; take a smaller model or a machine with more memory"
                           : fmt::format("  what would fit:\n{}", fmt::join(fits, "\n")));
}

}  // namespace tern
