#include "train/evaluate.h"

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "model/linear.h"
#include "program/generate.h"

namespace tern {

Evaluation evaluate(const ModelSpec& spec, WeightSource weights, const Feed& feed, int64_t seq, int64_t max_windows,
                    int64_t micro, DType dtype, const RopeTable* rope, Arena& arena,
                    const std::function<bool()>& stopped) {
  Evaluation result;
  double sum = 0;
  const int64_t count = std::min(feed.num_windows(), max_windows);
  for (int64_t begin = 0; begin < count; begin += micro) {
    if (stopped && stopped()) {
      result.whole = false;
      return result;
    }
    std::vector<int64_t> chosen;
    for (int64_t i = begin; i < std::min(begin + micro, count); ++i)
      chosen.push_back(static_cast<int64_t>(static_cast<__int128>(feed.num_windows()) * i / count));
    MicroBatch batch = feed.windows(chosen, rope);
    const CostQuery query{.tokens = static_cast<int64_t>(chosen.size()) * seq,
                          .attended_pairs = attended_pairs_of(batch, 0),
                          .dtype = dtype,
                          .scratch = scratch_bytes(Multiply::exact, dtype)};
    const ExecuteResult run =
        execute(forward_program(without_dropout(spec), {&query, 1}),
                {.spec = spec, .weights = weights, .micro_batches = {&batch, 1}, .compute = {arena, Multiply::exact}});
    sum += run.loss_sum;
    result.num_targets += run.num_targets;
    result.peak_bytes = std::max(result.peak_bytes, run.bytes.peak_bytes);
    result.mismatches.insert(result.mismatches.end(), run.mismatches.begin(), run.mismatches.end());
  }
  if (result.num_targets == 0)
    throw Error(
        ErrorKind::bad_file,
        "{}: no token among {} evaluation windows has a loss; is every text shorter than two tokens, or masked?",
        feed.data().info().source, count);
  result.loss = sum / static_cast<double>(result.num_targets);
  const TokenFileInfo& info = feed.data().info();
  if (info.text_bytes > 0 && !feed.data().has_loss())
    result.bits_per_byte =
        result.loss / std::numbers::ln2 * static_cast<double>(info.num_tokens) / static_cast<double>(info.text_bytes);
  return result;
}

}  // namespace tern
