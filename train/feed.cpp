#include "train/feed.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "spec/attended_pairs.h"
#include "spec/unit_cost.h"

namespace tern {

namespace {

// Whole numbers of kMixtureBlock that are nearest to the shares: the largest remainders are rounded up.
void share_out(std::vector<Feed::Source>& sources) {
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = kMixtureBlock;
  for (size_t k = 0; k < sources.size(); ++k) {
    const double exact = sources[k].share * static_cast<double>(kMixtureBlock);
    sources[k].of_block = static_cast<int64_t>(exact);
    remainders.emplace_back(static_cast<double>(sources[k].of_block) - exact, k);
    left -= sources[k].of_block;
  }
  std::ranges::sort(remainders);
  for (size_t i = 0; left > 0; ++i, --left) ++sources[remainders[i % remainders.size()].second].of_block;
  int64_t before = 0;
  for (Feed::Source& source : sources) {
    if (source.of_block == 0)
      throw Error(ErrorKind::bad_file,
                  "{}: a share of {:.2g} is less than one sample in {}; give it more, or leave it out", source.place,
                  source.share, kMixtureBlock);
    source.first_of_block = before;
    before += source.of_block;
  }
}

}  // namespace

Feed::Feed(TokenData data, FeedConfig config, std::string_view place)
    : Feed(std::vector{Source{.data = std::move(data), .place = std::string(place)}}, config) {}

Feed::Feed(std::vector<Source> sources, FeedConfig config) : sources_(std::move(sources)), config_(config) {
  TERN_CHECK(config_.seq >= 1, "Feed: seq {}", config_.seq);
  TERN_CHECK(!sources_.empty() && (sources_.size() == 1 || config_.together == 1), "Feed: {} sources in groups of {}",
             sources_.size(), config_.together);
  for (Source& source : sources_) {
    source.num_windows = (source.data.num_tokens() - 1) / config_.seq;
    if (source.num_windows < 1)
      throw Error(ErrorKind::bad_file,
                  "{}: {} tokens, one window takes {} (--seq {} and the last target); more data or a shorter --seq",
                  source.place, source.data.num_tokens(), config_.seq + 1, config_.seq);
    source.first_window = num_windows_;
    num_windows_ += source.num_windows;
  }
  share_out(sources_);
  TERN_CHECK(num_windows_ % config_.together == 0, "Feed: {} windows in groups of {}", num_windows_, config_.together);
}

const TokenData& Feed::data() const {
  TERN_CHECK(sources_.size() == 1, "Feed: {} sources", sources_.size());
  return sources_.front().data;
}

int64_t Feed::left_over() const {
  int64_t tokens = 0;
  for (const Source& source : sources_) tokens += source.left_over(config_.seq);
  return tokens;
}

int64_t Feed::num_tokens() const {
  int64_t tokens = 0;
  for (const Source& source : sources_) tokens += source.data.num_tokens();
  return tokens;
}

int64_t Feed::num_loss_targets() const {
  int64_t count = 0;
  for (const Source& source : sources_) {
    const TokenData& data = source.data;
    const int64_t end = source.num_windows * config_.seq;  // the last target
    if (!data.has_loss()) count += end;
    if (data.has_loss())
      for (int64_t i = 1; i <= end; ++i) {
        count += data.loss(i);
        if (i % (int64_t{1} << 26) == 0) data.let_go();  // what is mapped must not stay resident
      }
    for (const int64_t border : data.documents())
      if (border > 0 && border <= end) count -= data.loss(border);
    data.let_go();
  }
  return count;
}

int64_t Feed::window_within(const Source& source, uint64_t sample) const {
  const uint64_t n = static_cast<uint64_t>(source.num_windows), epoch = sample / n, index = sample % n;
  if (!config_.shuffle) return static_cast<int64_t>(index);
  // One stream per epoch: the name's hash, stepped by an odd constant so that epochs do not share keys. Of several sources each has its
  // own.
  const auto number = static_cast<uint64_t>(&source - sources_.data());
  const RngKey key{config_.seed + number, hash_name("train/feed") + epoch * 0x9e3779b97f4a7c15u};
  const auto together = static_cast<uint64_t>(config_.together);
  return static_cast<int64_t>(random_permutation(key, index / together, n / together) * together + index % together);
}

const Feed::Source& Feed::source_of(int64_t window) const {
  const auto next = std::ranges::upper_bound(sources_, window, {}, &Source::first_window);
  return *std::prev(next);
}

int64_t Feed::window_of(uint64_t sample) const {
  if (sources_.size() == 1) return window_within(sources_.front(), sample);
  constexpr auto kBlock = static_cast<uint64_t>(kMixtureBlock);
  const uint64_t block = sample / kBlock;
  const RngKey key{config_.seed, hash_name("train/mixture") + block * 0x9e3779b97f4a7c15u};
  const auto source_at = [&](uint64_t place) -> const Source& {
    const auto turn = static_cast<int64_t>(random_permutation(key, place, kBlock));
    return *std::prev(std::ranges::upper_bound(sources_, turn, {}, &Source::first_of_block));
  };
  const Source& source = source_at(sample % kBlock);
  uint64_t number = block * static_cast<uint64_t>(source.of_block);  // of the source's samples
  for (uint64_t place = 0; place < sample % kBlock; ++place) number += &source_at(place) == &source;
  return source.first_window + window_within(source, number);
}

MicroBatch Feed::windows(std::span<const int64_t> windows, const RopeTable* rope) const {
  const int64_t seq = config_.seq;
  std::vector<int32_t> tokens, targets, stretch(static_cast<size_t>(seq + 1));
  std::vector<int64_t> starts;
  tokens.reserve(windows.size() * static_cast<size_t>(seq));
  targets.reserve(tokens.capacity());
  for (const int64_t window : windows) {
    const Source& source = source_of(window);
    const TokenData& data = source.data;
    const std::span<const int64_t> borders = data.documents();
    const int64_t first = (window - source.first_window) * seq;
    data.read(first, stretch);
    auto border = std::upper_bound(borders.begin(), borders.end(), first);  // the first border after `first`
    starts.push_back(static_cast<int64_t>(tokens.size()));
    for (int64_t i = 0; i < seq; ++i) {
      const int64_t next = first + i + 1;
      while (border != borders.end() && *border < next) ++border;  // empty documents share a border
      const bool ends = border != borders.end() && *border == next;
      tokens.push_back(stretch[i]);
      targets.push_back(ends || !data.loss(next) ? -1 : stretch[i + 1]);
      if (ends && i + 1 < seq) starts.push_back(static_cast<int64_t>(tokens.size()));
    }
  }
  starts.push_back(static_cast<int64_t>(tokens.size()));
  for (const Source& source : sources_)
    source.data.let_go();  // a run that draws from all over the data must not end with all of it resident
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
