#pragma once
// Feed: makes micro-batches of token data. Any sample is found in O(1) by its number. So a run that has seen s samples resumes with
// sample s, and needs no other state of the Feed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "formats/data/token_data.h"
#include "model/rope_table.h"

namespace tern {

/// The number of samples in a block of a mixture: each source has its share of every block.
inline constexpr int64_t kMixtureBlock = 4096;

/// How windows are cut and ordered.
struct FeedConfig {
  int64_t seq = 256;    // tokens of a window's inputs
  uint64_t seed = 0;    // of the shuffle
  bool shuffle = true;  // false: windows come in the order of the data
  // So many neighbouring windows stay together in the shuffled order: 2 for pairs. It must divide num_windows.
  int64_t together = 1;
};

/// The documents are laid end to end and cut into windows. Window i is the seq + 1 tokens from i·seq to i·seq + seq: its inputs are the first
/// seq of them, its targets the last seq. Tokens at the end that fill no window are dropped (left_over). A document that begins inside
/// a window starts a sequence of its own: its positions count from 0, and neither attention nor a target (−1) crosses the border. A token
/// whose loss mask is 0 is no target either.
/// A sample is a window, numbered in the order of training.
/// Order    for one source: sample s belongs to epoch s / num_windows. Within an epoch the windows come in a permutation whose key is (seed,
///          epoch), or without shuffling in the order of the data. Batch size, micro-batch and resume do not change the order.
/// Sources  for several sources: windows are numbered source after source. Of each kMixtureBlock samples a source gives as many as its
///          share says, rounded (the largest remainders up). A permutation whose key is (seed, block) scatters them in the block; the samples
///          of one source come in that source's order.
class Feed {
 public:
  struct Source {
    TokenData data;
    double share = 1;        // of the samples; the sources' shares add up to 1
    std::string place = {};  // names the data in errors
    // The Feed fills in the rest.
    int64_t num_windows = 0, first_window = 0;
    int64_t of_block = 0;        // how many samples of each block this source gives
    int64_t first_of_block = 0;  // how many the sources before this one give
    int64_t left_over(int64_t seq) const { return data.num_tokens() - 1 - num_windows * seq; }  // tokens in no window
  };
  /// Errors  bad_file: fewer than seq + 1 tokens; `place` names the data in it.
  Feed(TokenData, FeedConfig, std::string_view place);
  /// Errors  as above; bad_file: a share under half a sample a block. TERN_CHECK: no source; several and together > 1.
  Feed(std::vector<Source>, FeedConfig);

  int64_t num_windows() const { return num_windows_; }
  int64_t left_over() const;  // tokens in no window
  /// The number of targets with a loss in all windows: a document's first token is no target, nor is a masked token.
  int64_t num_loss_targets() const;
  int64_t num_tokens() const;
  const std::vector<Source>& sources() const { return sources_; }
  /// The data of the only source. Errors: TERN_CHECK: there are several.
  const TokenData& data() const;
  /// The window that this sample is.
  int64_t window_of(uint64_t sample) const;
  /// One micro-batch of windows.size()·seq rows: these windows laid end to end.
  MicroBatch windows(std::span<const int64_t> windows, const RopeTable*) const;
  /// Samples [first, first + count), `micro` to a micro-batch; the last may be smaller.
  std::vector<MicroBatch> samples(uint64_t first, int64_t count, int64_t micro, const RopeTable*) const;

 private:
  int64_t window_within(const Source&, uint64_t sample) const;
  const Source& source_of(int64_t window) const;

  std::vector<Source> sources_;
  FeedConfig config_;
  int64_t num_windows_ = 0;
};

/// The number of (query, key) pairs per head that attention computes for these rows; FLOPs are counted by it. `window`: the width of a
/// sliding window; 0: none.
int64_t attended_pairs_of(const MicroBatch&, int64_t window);

}  // namespace tern
