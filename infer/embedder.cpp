#include "infer/embedder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
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

std::vector<float> finished(std::vector<double> vector, bool normalize) {
  if (normalize) {
    double squares = 0;
    for (const double v : vector) squares += v * v;
    if (squares > 0)
      for (double& v : vector) v /= std::sqrt(squares);
  }
  std::vector<float> out(vector.size());
  for (size_t i = 0; i < vector.size(); ++i) out[i] = static_cast<float>(vector[i]);
  return out;
}

// Frequencies that depend on a sequence's length are each text's own.
bool has_own_table(const ModelSpec& spec) {
  return spec.rope.kind == RopeKind::dynamic || spec.rope.kind == RopeKind::longrope;
}

}  // namespace

int64_t texts_at_a_time(const ModelSpec& spec, const EmbeddingSettings& settings) {
  return has_own_table(spec) ? 1 : settings.batch;
}

Embedder::Embedder(const ModelSpec& spec, const ModelWeights& weights, const Linear* pooler, int64_t longest,
                   const EmbeddingSettings& settings, Arena& arena)
    : spec_(spec), weights_(weights), pooler_(pooler), longest_(longest), settings_(settings), arena_(arena) {
  TERN_CHECK((settings.pooling == Pooling::pooler) == (pooler != nullptr),
             "embed: pooler without its pooling, or the other way");
  if (spec.turns() && !has_own_table(spec)) rope_ = rope_table(spec, longest, longest);
}

uint64_t Embedder::submit(std::vector<int32_t> tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  if (length == 0 || length > longest_)
    throw Error(ErrorKind::usage, "embed: a text has {} tokens, expected 1 to {}", length, longest_);
  waiting_.emplace(next_, std::move(tokens));
  return next_++;
}

bool Embedder::cancel(uint64_t text) { return waiting_.erase(text) > 0; }

std::vector<EmbeddingEvent> Embedder::step() {
  const size_t num = std::min(waiting_.size(), static_cast<size_t>(texts_at_a_time(spec_, settings_)));
  std::vector<EmbeddingEvent> events(num);
  if (num == 0) return events;
  RaggedBatch batch;
  auto next = waiting_.begin();
  for (size_t i = 0; i < num; ++i, ++next) events[i].text = next->first, batch.add(next->second, 0);
  if (has_own_table(spec_)) rope_ = rope_table(spec_, batch.num_rows(), batch.num_rows());
  const Compute c{arena_, Multiply::exact};
  Tensor x = model_forward(spec_, weights_, batch.rows(spec_.turns() ? &rope_ : nullptr), nullptr, c);
  if (const NormSpec& norm = spec_.head().norm; norm.present()) {
    const Tensor normed = arena_.allocate(x.dtype(), x.shape(), MemoryClass::workspace);
    ops::norm(norm, head_of(weights_).norm, x, normed, {}, {});
    x = normed;
  }
  const std::vector<int64_t>& starts = batch.starts();
  std::vector<std::vector<double>> vectors(num);
  for (size_t i = 0; i < num; ++i) vectors[i] = pooled(x, starts[i], starts[i + 1], settings_.pooling);
  if (pooler_) {
    const std::vector<int32_t> firsts(starts.begin(), starts.end() - 1);
    take_through_pooler(*pooler_, firsts, x, c, vectors);
  }
  for (size_t i = 0; i < num; ++i) {
    events[i].vector = finished(std::move(vectors[i]), settings_.normalize);
    if (std::ranges::all_of(events[i].vector, [](float v) { return std::isfinite(v); })) continue;
    events[i] = {.text = events[i].text,
                 .vector = {},
                 .error = std::make_exception_ptr(NotFinite(
                     "embed: the vector holds NaN or infinity; what the model computes leaves the range of {}",
                     name_of(x.dtype())))};
  }
  waiting_.erase(waiting_.begin(), next);
  return events;
}

}  // namespace tern
