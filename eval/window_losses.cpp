#include "eval/window_losses.h"

#include <cmath>

#include "base/error.h"
#include "eval/batch_rows.h"
#include "model/not_finite.h"

namespace tern {

std::vector<double> window_losses(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Window>& windows, int64_t batch, Arena& arena,
                                  const std::function<bool(int64_t)>& on_window) {
  return window_losses(spec, weights, windows, {}, batch, arena, on_window);
}

std::vector<double> window_losses(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Window>& windows, const std::vector<std::vector<uint8_t>>& masks,
                                  int64_t batch, Arena& arena, const std::function<bool(int64_t)>& on_window) {
  return window_losses_from(0, spec, weights, windows, masks, batch, arena,
                            [&](size_t first, std::span<const double> losses) {
                              return !on_window || on_window(static_cast<int64_t>(first + losses.size()));
                            });
}

std::vector<double> window_losses_from(size_t first, const ModelSpec& spec, const ModelWeights& weights,
                                       const std::vector<Window>& windows,
                                       const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena& arena,
                                       const OnLosses& on_losses, std::optional<KvType> kv) {
  const WindowBatches batches(windows, masks, batch);
  batches.check(spec);
  const RopeTable rope = batches.rope(spec);
  const Compute compute{arena, Multiply::exact};

  std::vector<double> losses;
  for (; first < windows.size(); first += static_cast<size_t>(batch)) {
    const BatchRows b = batches.rows_with_prompts(first);
    const size_t count = b.of_window.empty() ? b.starts.size() - 1 : b.of_window.size();
    Rows rows = make_rows(b.tokens, b.starts, spec.rope.kind == RopeKind::none ? nullptr : &rope, b.follows);
    rows.kv = kv;
    const Tensor hidden = model_forward(spec, weights, rows, nullptr, compute);
    const std::vector<double> row_losses = head_losses(spec, weights, hidden, b.targets, compute);
    const size_t before = losses.size();
    for (size_t w = 0; w < count; ++w) {
      double sum = 0;
      const size_t s = b.of_window.empty() ? w : b.of_window[w];
      for (int64_t r = b.starts[s]; r < b.starts[s + 1]; ++r) sum += row_losses[static_cast<size_t>(r)];
      if (!std::isfinite(sum))
        throw NotFinite(
            "eval: the loss of window {} is not finite, though the model's weights may be: its scores leave the range "
            "of the type it computes in; try --dtype f32",
            first + w + 1);
      losses.push_back(sum);
    }
    if (!on_losses(first, std::span(losses).subspan(before)))
      throw Error(ErrorKind::interrupted, "eval: stopped on request after {} of {} windows", first + count,
                  windows.size());
  }
  return losses;
}

}  // namespace tern
