#include "infer/kv_on_disk.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"

namespace tern {
namespace {

bool keeps_keys(const KvLayer& layer) { return layer.kv_heads * layer.head_dim > 0; }

// How the keys, or the values, of a layer lie in its image, in bytes: pages, of heads, of rows.
struct KvHalf {
  int64_t heads, row, head, page, bytes;  // bytes: of all pages, in whole blocks
  KvHalf(const KvShape& shape, const KvLayer& layer, int64_t num_pages, int64_t alignment)
      : heads(layer.kv_heads),
        row(kv_row_bytes(shape.type, layer.head_dim)),
        head(row * shape.page_tokens),
        page(head * heads),
        bytes(round_up(page * num_pages, alignment)) {}
};

int64_t image_bytes(const KvShape& shape, const KvLayer& layer, int64_t num_pages, int64_t alignment) {
  return 2 * KvHalf(shape, layer, num_pages, alignment).bytes;
}

std::vector<int64_t> images_of(const KvShape& shape, int64_t num_pages, const std::vector<bool>& on_disk,
                               int64_t alignment) {
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < on_disk.size(); ++i)
    if (on_disk[i]) bytes.push_back(image_bytes(shape, shape.layers[i], num_pages, alignment));
  return bytes;
}

// The moves of keys; those of values are the same, half an image on.
class HalfMoves {
 public:
  HalfMoves(const KvHalf& half, int64_t page_tokens, int64_t alignment)
      : half_(half), page_tokens_(page_tokens), alignment_(alignment) {}

  void read_page(int32_t page) { reads_.push_back(blocks(page * half_.page, (page + 1) * half_.page)); }
  // Rows of tokens [first, last) of the page.
  void write_rows(int32_t page, int64_t first, int64_t last) {
    const int64_t at = page * half_.page;
    if (first == 0 && last == page_tokens_) return write(page, at, at + half_.page);
    for (int64_t h = 0; h < half_.heads; ++h)
      write(page, at + h * half_.head + first * half_.row, at + h * half_.head + last * half_.row);
  }
  void copy(const KvCopy& c) {
    read_page(c.from);
    write_rows(c.to, 0, page_tokens_);
  }
  ImageMoves joined() {
    for (std::vector<BlockRun>* runs : {&reads_, &writes_}) {
      const size_t count = runs->size();
      for (size_t i = 0; i < count; ++i) {
        const BlockRun run = (*runs)[i];
        runs->push_back({run.begin + half_.bytes, run.end + half_.bytes});
      }
    }
    return {joined_runs(std::move(reads_)), joined_runs(std::move(writes_))};
  }

 private:
  BlockRun blocks(int64_t begin, int64_t end) const { return {begin & -alignment_, round_up(end, alignment_)}; }
  void write(int32_t page, int64_t begin, int64_t end) {
    const BlockRun run = blocks(begin, end);
    writes_.push_back(run);
    if (run.begin < page * half_.page || run.end > (page + 1) * half_.page) reads_.push_back(run);
  }

  KvHalf half_;
  int64_t page_tokens_, alignment_;
  std::vector<BlockRun> reads_, writes_;
};

ImageMoves moves_of(const KvHalf& half, const KvView& view, std::span<const int64_t> new_tokens,
                    std::span<const KvCopy> copies, int64_t alignment) {
  const int64_t P = view.page_tokens;
  HalfMoves moves(half, P, alignment);
  for (const KvCopy& c : copies) moves.copy(c);
  for (size_t i = 0; i < view.past.size(); ++i) {
    const int64_t past = view.past[i], total = past + new_tokens[i];
    const auto pages = std::span(view.pages).subspan(static_cast<size_t>(view.begins[i]));
    for (int64_t j = 0; j < ceil_div(past, P); ++j) moves.read_page(pages[static_cast<size_t>(j)]);
    for (int64_t at = past; at < total;) {
      const int64_t page = at / P, end = std::min(total, (page + 1) * P);
      moves.write_rows(pages[static_cast<size_t>(page)], at - page * P, end - page * P);
      at = end;
    }
  }
  return moves.joined();
}

}  // namespace

int64_t kv_layers(const KvShape& shape) { return std::ranges::count_if(shape.layers, keeps_keys); }

// Of n layers k are chosen where i·k/n passes a whole number.
std::vector<bool> kv_layers_on_disk(const KvShape& shape, int64_t count) {
  const int64_t all = kv_layers(shape);
  TERN_CHECK(0 <= count && count <= all, "kv_layers_on_disk: {} of {} layers", count, all);
  std::vector<bool> on_disk;
  int64_t i = 0;
  for (const KvLayer& layer : shape.layers) {
    const bool keeps = keeps_keys(layer);
    on_disk.push_back(keeps && (i + 1) * count / all > i * count / all);
    if (keeps) ++i;
  }
  return on_disk;
}

int64_t kv_memory_bytes(const KvShape& shape, int64_t num_pages, int64_t count, int64_t alignment) {
  if (count == 0) return shape.bytes_per_page() * num_pages;
  const std::vector<bool> on_disk = kv_layers_on_disk(shape, count);
  int64_t bytes = ImageRing::bytes_for(images_of(shape, num_pages, on_disk, alignment), kKvSlots, alignment);
  for (size_t i = 0; i < on_disk.size(); ++i)
    if (!on_disk[i] && keeps_keys(shape.layers[i]))
      bytes += 2 * num_pages * KvHalf(shape, shape.layers[i], num_pages, alignment).page;
  return bytes + alignment;  // of which the slots' beginning is a multiple
}

int64_t kv_file_bytes(const KvShape& shape, int64_t num_pages, int64_t count, int64_t alignment) {
  return ImageRing::file_bytes_for(images_of(shape, num_pages, kv_layers_on_disk(shape, count), alignment), alignment);
}

KvMoved kv_step_bytes(const KvShape& shape, int64_t count, int64_t sequences, int64_t past, int64_t alignment) {
  KvMoved moved;
  const std::vector<bool> on_disk = kv_layers_on_disk(shape, count);
  for (size_t i = 0; i < on_disk.size(); ++i) {
    if (!on_disk[i]) continue;
    const KvHalf half(shape, shape.layers[i], 1, alignment);
    HalfMoves row(half, shape.page_tokens, alignment);
    row.write_rows(0, past % shape.page_tokens, past % shape.page_tokens + 1);
    moved.read += 2 * sequences * ceil_div(past, shape.page_tokens) * half.page;
    moved.written += sequences * bytes_of(row.joined().writes);
  }
  return moved;
}

KvMoved KvPass::moved() const {
  KvMoved all;
  for (const ImageMoves& m : moves) all.read += bytes_of(m.reads), all.written += bytes_of(m.writes);
  return all;
}

KvPass plan_kv_pass(const KvShape& shape, int64_t num_pages, std::vector<int> layers, const KvView& view,
                    std::span<const int64_t> new_tokens, std::span<const std::vector<KvCopy>> copies,
                    int64_t alignment) {
  TERN_CHECK(new_tokens.size() == view.past.size() && copies.size() == layers.size(),
             "plan_kv_pass: {} sequences and {} counts, {} layers and {} lists of copies", view.past.size(),
             new_tokens.size(), layers.size(), copies.size());
  KvPass pass;
  for (size_t i = 0; i < layers.size(); ++i) {
    const KvHalf half(shape, shape.layers.at(static_cast<size_t>(layers[i])), num_pages, alignment);
    pass.moves.push_back(moves_of(half, view, new_tokens, copies[i], alignment));
  }
  pass.layers = std::move(layers);
  return pass;
}

KvOnDisk::KvOnDisk(std::unique_ptr<ScratchFile> file, const KvShape& shape, int64_t num_pages, int64_t on_disk,
                   Arena& arena, const RingSettings& settings)
    : file_(std::move(file)),
      shape_(shape),
      num_pages_(num_pages),
      file_bytes_(kv_file_bytes(shape, num_pages, on_disk, file_->alignment())),
      place_(shape.layers.size(), -1) {
  TERN_CHECK(on_disk >= 1, "KvOnDisk: of no layer");
  const int64_t alignment = file_->alignment();
  const std::vector<bool> which = kv_layers_on_disk(shape, on_disk);
  for (size_t i = 0; i < which.size(); ++i) {
    if (!which[i]) continue;
    place_[i] = static_cast<int>(layers_.size());
    layers_.push_back(static_cast<int>(i));
  }
  copies_.resize(layers_.size());
  std::vector<int64_t> images = images_of(shape, num_pages, which, alignment);
  const int64_t bytes = ImageRing::bytes_for(images, settings.slots, alignment);
  memory_ = arena.bytes(bytes + alignment, MemoryClass::kv_cache);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  const uintptr_t skip = (begin + static_cast<uintptr_t>(alignment) - 1) / static_cast<uintptr_t>(alignment) *
                             static_cast<uintptr_t>(alignment) -
                         begin;
  ring_ = std::make_unique<ImageRing>(
      *file_, std::move(images), settings,
      std::span(static_cast<std::byte*>(memory_.data()) + skip, static_cast<size_t>(bytes)));
}

void KvOnDisk::copy_page(int32_t from, int32_t to) {
  for (std::vector<KvCopy>& list : copies_) list.push_back({from, to});
}

void KvOnDisk::begin(const KvView& view, std::span<const int64_t> new_tokens) {
  KvPass pass = plan_kv_pass(shape_, num_pages_, layers_, view, new_tokens, copies_, file_->alignment());
  const KvMoved moved = pass.moved();
  step_moves_.clear();
  for (const ImageMoves& m : pass.moves) step_moves_.push_back({bytes_of(m.reads), bytes_of(m.writes)});
  ring_->begin(std::move(pass.moves));
  planned_.read += moved.read, planned_.written += moved.written;
}

KvOnDisk::Layer KvOnDisk::acquire(int layer) {
  const int place = place_[static_cast<size_t>(layer)];
  const std::span<std::byte> image = ring_->acquire(place);
  const KvLayer& heads = shape_.layers[static_cast<size_t>(layer)];
  const KvHalf half(shape_, heads, num_pages_, file_->alignment());
  const DType dtype = is_coded(shape_.type) ? DType::u8 : *dtype_of(shape_.type);
  const int64_t row = is_coded(shape_.type) ? half.row : heads.head_dim;
  const Shape rows{num_pages_, heads.kv_heads, shape_.page_tokens, row};
  std::byte *keys = image.data(), *values = keys + half.bytes;
  for (const KvCopy& c : copies_[static_cast<size_t>(place)])
    for (std::byte* at : {keys, values})
      std::memcpy(at + c.to * half.page, at + c.from * half.page, static_cast<size_t>(half.page));
  return {Tensor::borrow(dtype, rows, keys), Tensor::borrow(dtype, rows, values)};
}

void KvOnDisk::release(int layer) {
  ring_->release();
  copies_[static_cast<size_t>(place_[static_cast<size_t>(layer)])].clear();
}

std::shared_ptr<KvOnDisk> open_kv_on_disk(const std::string& directory, const KvShape& shape, int64_t num_pages,
                                          int64_t on_disk, Arena& arena, std::string& note) {
  OpenedScratch opened =
      open_scratch(directory, kv_file_bytes(shape, num_pages, on_disk), ReadWay::direct, "keys and values");
  note = opened.note;
  return std::make_shared<KvOnDisk>(std::move(opened.file), shape, num_pages, on_disk, arena);
}

KvStep::KvStep(const KvPool& pool, KvView& view, std::span<const int64_t> new_tokens) : disk_(pool.on_disk()) {
  if (!disk_) return;
  keys_.assign(view.keys.begin(), view.keys.end());
  values_.assign(view.values.begin(), view.values.end());
  view.keys = keys_, view.values = values_;
  disk_->begin(view, new_tokens);
}

KvStep::~KvStep() {
  if (disk_) disk_->abandon();
}

void KvStep::acquire(int layer) {
  if (!disk_ || layer < 0 || !disk_->holds(layer)) return;
  KvOnDisk::Layer there = disk_->acquire(layer);
  keys_[static_cast<size_t>(layer)] = std::move(there.keys);
  values_[static_cast<size_t>(layer)] = std::move(there.values);
}

void KvStep::release(int layer) {
  if (!disk_ || layer < 0 || !disk_->holds(layer)) return;
  keys_[static_cast<size_t>(layer)] = values_[static_cast<size_t>(layer)] = {};
  disk_->release(layer);
}

}  // namespace tern
