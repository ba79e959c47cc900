#include "train/feed.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "spec/unit_cost.h"

namespace tern {

Feed::Feed(TokenData data, FeedConfig config, std::string_view place) : data_(std::move(data)), config_(config) {
  TERN_CHECK(config_.seq >= 1, "Feed: seq {}", config_.seq);
  num_windows_ = (data_.num_tokens() - 1) / config_.seq;
  if (num_windows_ < 1)
    throw Error(ErrorKind::bad_file,
                "{}: {} tokens, one window takes {} (--seq {} and the last target); more data or a shorter --seq",
                place, data_.num_tokens(), config_.seq + 1, config_.seq);
  TERN_CHECK(num_windows_ % config_.together == 0, "Feed: {} windows in groups of {}", num_windows_, config_.together);
}

int64_t Feed::left_over() const { return data_.num_tokens() - 1 - num_windows_ * config_.seq; }

int64_t Feed::num_loss_targets() const {
  const int64_t end = num_windows_ * config_.seq;  // the last target
  const std::span<const int64_t> borders = data_.documents();
  int64_t count = data_.has_loss() ? 0 : end;
  if (data_.has_loss())
    for (int64_t i = 1; i <= end; ++i) {
      count += data_.loss(i);
      if (i % (int64_t{1} << 26) == 0) data_.let_go();  // what is mapped must not stay resident
    }
  for (const int64_t border : borders)
    if (border > 0 && border <= end) count -= data_.loss(border);
  data_.let_go();
  return count;
}

int64_t Feed::window_of(uint64_t sample) const {
  const uint64_t n = static_cast<uint64_t>(num_windows_), epoch = sample / n, index = sample % n;
  if (!config_.shuffle) return static_cast<int64_t>(index);
  // One stream per epoch: the name's hash, stepped by an odd constant so that epochs do not share keys.
  const RngKey key{config_.seed, hash_name("train/feed") + epoch * 0x9e3779b97f4a7c15u};
  const auto together = static_cast<uint64_t>(config_.together);
  return static_cast<int64_t>(random_permutation(key, index / together, n / together) * together + index % together);
}

MicroBatch Feed::windows(std::span<const int64_t> windows, const RopeTable* rope) const {
  const int64_t seq = config_.seq;
  std::vector<int32_t> tokens, targets, stretch(static_cast<size_t>(seq + 1));
  std::vector<int64_t> starts;
  tokens.reserve(windows.size() * static_cast<size_t>(seq));
  targets.reserve(tokens.capacity());
  const std::span<const int64_t> borders = data_.documents();
  for (const int64_t window : windows) {
    const int64_t first = window * seq;
    data_.read(first, stretch);
    auto border = std::upper_bound(borders.begin(), borders.end(), first);  // the first border after `first`
    starts.push_back(static_cast<int64_t>(tokens.size()));
    for (int64_t i = 0; i < seq; ++i) {
      const int64_t next = first + i + 1;
      while (border != borders.end() && *border < next) ++border;  // empty documents share a border
      const bool ends = border != borders.end() && *border == next;
      tokens.push_back(stretch[i]);
      targets.push_back(ends || !data_.loss(next) ? -1 : stretch[i + 1]);
      if (ends && i + 1 < seq) starts.push_back(static_cast<int64_t>(tokens.size()));
    }
  }
  starts.push_back(static_cast<int64_t>(tokens.size()));
  data_.let_go();  // a run that draws from all over the data must not end with all of it resident
  return MicroBatch(std::move(tokens), std::move(starts), std::move(targets), rope);
}

std::vector<MicroBatch> Feed::samples(uint64_t first, int64_t count, int64_t micro, const RopeTable* rope) const {
  std::vector<MicroBatch> batches;
  for (int64_t begin = 0; begin < count; begin += micro) {
    std::vector<int64_t> chosen;
    for (int64_t i = begin; i < std::min(begin + micro, count); ++i)
      chosen.push_back(window_of(first + static_cast<uint64_t>(i)));
    batches.push_back(windows(chosen, rope));
  }
  return batches;
}

int64_t attended_pairs_of(const MicroBatch& batch, int64_t window) {
  int64_t pairs = 0;
  for (size_t i = 0; i + 1 < batch.rows.starts.size(); ++i)
    pairs += attended_pairs(batch.rows.starts[i + 1] - batch.rows.starts[i], 0, window);
  return pairs;
}

}  // namespace tern
