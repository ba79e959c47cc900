#pragma once
// Feed: token data to micro-batches. Its position, the number of samples seen, is all its state: any sample can be had
// in O(1), so a resume goes on with the very next one.

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

/// Samples of a mixture within which each source has its share.
inline constexpr int64_t kMixtureBlock = 4096;

struct FeedConfig {
  int64_t seq = 256;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t together = 1;  // neighbouring windows that stay neighbours when shuffled: 2 of pairs; divides their number
};

/// Windows of seq + 1 tokens over the documents laid end to end: window i is tokens [i·seq, i·seq + seq], its inputs
/// the first seq, its targets the last seq. The tokens of a last partial window (fewer than seq) are dropped:
/// left_over(). A document that begins inside a window starts a sequence of its own: positions from 0, no attention
/// across the border, and no target across it (-1), nor where the file's loss mask is 0.
/// Several sources: windows are numbered source after source. Of every kMixtureBlock samples each source gives as many as its share says,
/// rounded (the largest remainders up), scattered by a permutation keyed by (seed, block); its own samples come in its own order.
/// Order  of a source: sample s belongs to epoch s / num_windows; within an epoch the windows come in a permutation keyed by (seed,
///        epoch), or in order without shuffling. The same for any batch size, micro-batch or resume.
class Feed {
 public:
  struct Source {
    TokenData data;
    double share = 1;        // of the samples; all together 1
    std::string place = {};  // names the data in errors
    int64_t num_windows = 0, first_window = 0;
    int64_t of_block = 0, first_of_block = 0;  // of kMixtureBlock samples: its own; those of the sources before it
    int64_t left_over(int64_t seq) const { return data.num_tokens() - 1 - num_windows * seq; }  // tokens of no window
  };
  /// Errors  bad_file: fewer than seq + 1 tokens; `place` names the data in it.
  Feed(TokenData, FeedConfig, std::string_view place);
  /// Errors  as above; bad_file: a share below half a sample in kMixtureBlock. TERN_CHECK: no source; several of pairs.
  Feed(std::vector<Source>, FeedConfig);

  int64_t num_windows() const { return num_windows_; }
  int64_t left_over() const;  // tokens of no window
  /// The number of targets with a loss in all windows: a document's first token is no target, nor is a masked token.
  int64_t num_loss_targets() const;
  int64_t num_tokens() const;
  const std::vector<Source>& sources() const { return sources_; }
  /// The only source's. Errors: TERN_CHECK: there are several.
  const TokenData& data() const;
  /// The window that sample `s` is.
  int64_t window_of(uint64_t sample) const;
  /// Windows laid end to end as one micro-batch of windows.size()·seq rows.
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

/// Attended (query, key) pairs per head of these rows, for FLOPs.
int64_t attended_pairs_of(const MicroBatch&, int64_t window);

}  // namespace tern
