#include "eval/compare_models.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/batch_rows.h"
#include "eval/gated_losses.h"

namespace tern {

void compare_windows(const ComparedModel& reference, const ComparedModel& model, const std::vector<Window>& windows,
                     const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena& arena, size_t first,
                     const OnDifferences& on_batch) {
  if (reference.spec.vocab != model.spec.vocab)
    throw Error(ErrorKind::usage, "--reference: its vocabulary has {} ids, the model's {}; they cannot be compared",
                reference.spec.vocab, model.spec.vocab);
  TERN_CHECK(batch == 1 || !(reference.gated || model.gated), "compare_windows: {} gated texts at once", batch);
  const WindowBatches batches(windows, masks, batch);
  batches.check(reference.spec);
  batches.check(model.spec);
  const RopeTable ropes[2] = {batches.rope(reference.spec), batches.rope(model.spec)};
  const Compute compute{arena, Multiply::exact};
  for (; first < windows.size(); first += static_cast<size_t>(batch)) {
    const BatchRows b = batches.rows(first);
    std::vector<WindowDifference> part(b.starts.size() - 1);
    std::vector<int32_t> scored;
    for (size_t r = 0; r < b.targets.size(); ++r)
      if (b.targets[r] >= 0) scored.push_back(static_cast<int32_t>(r));
    const auto hidden = [&](const ComparedModel& m, const RopeTable& rope) {
      const RopeTable* table = m.spec.rope.kind == RopeKind::none ? nullptr : &rope;
      if (m.gated) return m.gated->forward(b.tokens, table, m.kv, compute);
      Rows rows = make_rows(b.tokens, b.starts, table);
      rows.kv = m.kv;
      return model_forward(m.spec, m.weights, rows, nullptr, compute);
    };
    const Tensor x_reference = hidden(reference, ropes[0]), x = hidden(model, ropes[1]);
    for (size_t begin = 0; begin < scored.size(); begin += kCompareRows) {
      const std::span<const int32_t> rows(scored.data() + begin, std::min<size_t>(kCompareRows, scored.size() - begin));
      const auto as_floats = [&](const ComparedModel& m, const Tensor& from) {
        const Tensor logits = head_logits(m.spec, m.weights, from, rows, compute);
        std::vector<float> out;
        if (logits.dtype() == DType::f64)
          for (const double v : logits.span<double>()) out.push_back(static_cast<float>(v));
        else
          out.assign(logits.span<float>().begin(), logits.span<float>().end());
        return out;
      };
      const std::vector<float> p = as_floats(reference, x_reference), q = as_floats(model, x);
      const auto vocab = static_cast<size_t>(model.spec.vocab);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto row = static_cast<size_t>(rows[i]);
        const RowDifference d = compare_logits(std::span(p).subspan(i * vocab, vocab),
                                               std::span(q).subspan(i * vocab, vocab), b.targets[row]);
        const auto w = static_cast<size_t>(
            std::upper_bound(b.starts.begin(), b.starts.end(), static_cast<int64_t>(row)) - b.starts.begin() - 1);
        WindowDifference& sums = part[w];
        ++sums.tokens;
        sums.same_top += d.same_top;
        sums.kl += d.kl;
        sums.kl_squares += d.kl * d.kl;
        sums.kl_max = std::max(sums.kl_max, d.kl);
        sums.loss += d.loss, sums.loss_squares += d.loss * d.loss;
        sums.reference_loss += d.reference_loss, sums.reference_loss_squares += d.reference_loss * d.reference_loss;
      }
    }
    if (!on_batch(first, part))
      throw Error(ErrorKind::interrupted, "eval: stopped on request after {} of {} windows", first + part.size(),
                  windows.size());
  }
}

WindowDifference& operator+=(WindowDifference& sum, const WindowDifference& w) {
  sum.tokens += w.tokens, sum.same_top += w.same_top;
  sum.kl += w.kl, sum.kl_squares += w.kl_squares, sum.kl_max = std::max(sum.kl_max, w.kl_max);
  sum.loss += w.loss, sum.reference_loss += w.reference_loss;
  sum.loss_squares += w.loss_squares, sum.reference_loss_squares += w.reference_loss_squares;
  return sum;
}

CompareReport summarize(const WindowDifference& sum) {
  CompareReport r;
  r.tokens = sum.tokens;
  if (sum.tokens == 0) return r;
  const auto n = static_cast<double>(sum.tokens);
  const auto error = [n](double mean, double mean_square) {
    return n > 1 ? std::sqrt(std::max(0.0, mean_square - mean * mean) / (n - 1)) : 0.0;
  };
  r.mean_kl = sum.kl / n;
  r.kl_error = error(r.mean_kl, sum.kl_squares / n);
  r.max_kl = sum.kl_max;
  r.same_top = static_cast<double>(sum.same_top) / n;
  r.same_top_error = error(r.same_top, r.same_top);
  r.loss = sum.loss / n, r.loss_error = error(r.loss, sum.loss_squares / n);
  r.reference_loss = sum.reference_loss / n;
  r.reference_loss_error = error(r.reference_loss, sum.reference_loss_squares / n);
  r.perplexity = std::exp(r.loss);
  r.reference_perplexity = std::exp(r.reference_loss);
  return r;
}

CompareReport summarize(const std::vector<WindowDifference>& windows) {
  WindowDifference sum;
  for (const WindowDifference& w : windows) sum += w;
  return summarize(sum);
}

}  // namespace tern
