#pragma once
// Keys and values of some layers in a file: layer by layer, a step reads the pages that its sequences have before the
// attention, and writes the blocks that got new rows after the attention. Memory holds few layers' pages at a time. Page
// numbers, forks and copies stay those of the pool, so the scheduler need not know of the disk. What a step moves is listed
// before it runs (KvPass): the ring moves what is listed, and its counts are the sums of the list.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infer/kv_cache.h"
#include "model/kv_view.h"
#include "program/inference_program.h"
#include "store/image_ring.h"

namespace tern {

inline constexpr int kKvSlots = 2, kKvThreads = 4;  // one layer is used while the next one is read
inline constexpr int64_t kKvAlignment = 4096;       // of the file

/// Which layers lie on the disk if `count` do: of those that keep keys, evenly spread.
std::vector<bool> kv_layers_on_disk(const KvShape&, int64_t count);
int64_t kv_layers(const KvShape&);  // the number of layers that keep keys
/// Bytes that the reading and writing threads keep, where any layer lies on the disk.
constexpr int64_t kv_thread_bytes() { return kKvThreads * (int64_t{96} << 10); }  // stacks, as far as they are touched
/// Bytes of memory, and of the file, for `num_pages` pages of each layer, where `on_disk` layers lie on the disk.
int64_t kv_memory_bytes(const KvShape&, int64_t num_pages, int64_t on_disk, int64_t alignment = kKvAlignment);
int64_t kv_file_bytes(const KvShape&, int64_t num_pages, int64_t on_disk, int64_t alignment = kKvAlignment);

/// Bytes that a step moves if each of `sequences` sequences, with `past` keys, gets one more:
///   read = 2·Σ_layers sequences·⌈past/page_tokens⌉·page,  written = 2·Σ_layers sequences·(the blocks of the row of each head)
/// Exact where a page is whole blocks and no two sequences share one; else up to two blocks more or less for each page.
KvMoved kv_step_bytes(const KvShape&, int64_t on_disk, int64_t sequences, int64_t past,
                      int64_t alignment = kKvAlignment);

/// A copy of a shared page, made before a sequence writes to it.
struct KvCopy {
  int32_t from = 0, to = 0;
};
/// What a step moves: for each layer on the disk, in order.
struct KvPass {
  std::vector<int> layers;
  std::vector<ImageMoves> moves;
  KvMoved moved() const;
};
/// `new_tokens`: how many each sequence of the view gets behind its past. `copies`: those of each layer of `layers`.
/// A step reads pages that hold keys, pages to copy from, and those blocks to be written that reach beyond their page.
KvPass plan_kv_pass(const KvShape&, int64_t num_pages, std::vector<int> layers, const KvView&,
                    std::span<const int64_t> new_tokens, std::span<const std::vector<KvCopy>> copies,
                    int64_t alignment = kKvAlignment);

class KvOnDisk {
 public:
  /// `file`: at least kv_file_bytes long. The slots are the arena's (MemoryClass::kv_cache). Errors: does_not_fit from the arena.
  KvOnDisk(std::unique_ptr<ScratchFile> file, const KvShape&, int64_t num_pages, int64_t on_disk, Arena&,
           const RingSettings& = {.slots = kKvSlots, .threads = kKvThreads});

  bool holds(int layer) const { return place_[static_cast<size_t>(layer)] >= 0; }
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }
  /// Notes a copy, which each layer makes when its turn comes next.
  void copy_page(int32_t from, int32_t to);

  /// Begins a step over these sequences; each layer that is held is acquired and released once, in order. Errors: those of ImageRing.
  void begin(const KvView&, std::span<const int64_t> new_tokens);
  struct Layer {
    Tensor keys, values;
  };
  /// The layer's keys and values, as a KvView has them; valid until release.
  Layer acquire(int layer);
  void release(int layer);
  /// Drops the rest of the step that was begun; what the step has written lies behind the ends of its sequences.
  void abandon() noexcept { ring_->abandon(); }

  KvMoved planned() const { return planned_; }  // of all steps that have begun
  /// The layers that are held, in order, and what each of them moves in the step that began last.
  std::span<const int> layers() const { return layers_; }
  std::span<const KvMoved> step_moves() const { return step_moves_; }
  int num_slots() const { return ring_->num_slots(); }
  int64_t slot_bytes() const { return ring_->slot_bytes(); }
  /// As ImageRing's; image i is that of the i-th of `layers`, pass p is step p.
  void record(bool on) { ring_->record(on); }
  std::vector<ImageMove> take_moves() { return ring_->take_moves(); }
  ImageCounts counts() const { return ring_->counts(); }
  int64_t file_bytes() const { return file_bytes_; }

 private:
  std::unique_ptr<ScratchFile> file_;
  KvShape shape_;
  int64_t num_pages_, file_bytes_;
  std::vector<int> layers_, place_;          // on the disk; of each layer: which of them it is, or -1
  std::vector<std::vector<KvCopy>> copies_;  // that each layer still has to make
  Tensor memory_;
  std::unique_ptr<ImageRing> ring_;
  KvMoved planned_;
  std::vector<KvMoved> step_moves_;
};

/// Makes a KvOnDisk over a file without a name on the disk of `directory`; the file ends with the process. `note`: why the file
/// is not read past the page cache; else empty. Errors: those of open_scratch.
std::shared_ptr<KvOnDisk> open_kv_on_disk(const std::string& directory, const KvShape&, int64_t num_pages,
                                          int64_t on_disk, Arena&, std::string& note);

/// One forward over a view of a pool: brings each layer that lies on the disk, and takes it away again. Without such layers it does nothing.
class KvStep {
 public:
  /// Pool and view must outlive it.
  KvStep(const KvPool&, KvView&, std::span<const int64_t> new_tokens);
  ~KvStep();
  KvStep(const KvStep&) = delete;
  KvStep& operator=(const KvStep&) = delete;
  /// -1: a unit without a layer of keys.
  void acquire(int layer);
  void release(int layer);

 private:
  KvOnDisk* disk_;
  std::vector<Tensor> keys_, values_;  // what the view sees
};

}  // namespace tern
