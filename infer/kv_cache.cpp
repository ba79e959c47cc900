#include "infer/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "infer/kv_on_disk.h"

namespace tern {
namespace {

int64_t pages_for(int64_t tokens, int64_t page_tokens) { return (tokens + page_tokens - 1) / page_tokens; }

void copy_page(const Tensor& storage, int32_t from, int32_t to) {
  if (storage.empty()) return;
  const size_t bytes = static_cast<size_t>(storage.bytes() / storage.rows());
  auto* base = static_cast<std::byte*>(storage.data());
  std::memcpy(base + bytes * static_cast<size_t>(to), base + bytes * static_cast<size_t>(from), bytes);
}

}  // namespace

KvShape kv_shape(const ModelSpec& spec, int64_t page_tokens, KvType type) {
  KvShape shape{std::vector<KvLayer>(static_cast<size_t>(spec.layers)), page_tokens, type};
  for (const Unit& unit : spec.units) {
    const AttentionSpec* attention = attention_of(unit);
    if (!attention || attention->cross) continue;
    KvLayer& layer = shape.layers.at(static_cast<size_t>(unit.layer));
    TERN_CHECK(layer.kv_heads == 0, "kv_shape: layer {} has two attentions", unit.layer);
    layer = {attention->kv_heads, attention->head_dim};
  }
  return shape;
}

int64_t KvShape::bytes_per_token() const {
  int64_t bytes = 0;
  for (const KvLayer& layer : layers) bytes += 2 * layer.kv_heads * kv_row_bytes(type, layer.head_dim);
  return bytes;
}

KvPool::KvPool(const KvShape& shape, int64_t num_pages, Arena& arena, std::shared_ptr<KvOnDisk> on_disk)
    : shape_(shape), on_disk_(std::move(on_disk)) {
  TERN_CHECK(shape.page_tokens >= 1 && num_pages >= 1, "KvPool: {} pages of {} tokens", num_pages, shape.page_tokens);
  const DType dtype = is_coded(shape.type) ? DType::u8 : *dtype_of(shape.type);
  for (size_t i = 0; i < shape.layers.size(); ++i)
    for (auto* store : {&keys_, &values_}) {
      const KvLayer& layer = shape.layers[i];
      const int64_t row = is_coded(shape.type) ? kv_row_bytes(shape.type, layer.head_dim) : layer.head_dim;
      const Shape storage{num_pages, layer.kv_heads, shape.page_tokens, row};
      const bool none = layer.kv_heads * layer.head_dim == 0 || (on_disk_ && on_disk_->holds(static_cast<int>(i)));
      store->push_back(none ? Tensor() : arena.allocate(dtype, storage, MemoryClass::kv_cache));
    }
  references_.assign(static_cast<size_t>(num_pages), 0);
  for (int64_t page = num_pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

int64_t KvPool::pages_needed(const KvPages& sequence, int64_t num_tokens) const {
  if (num_tokens == 0) return 0;
  const auto held = static_cast<int64_t>(sequence.pages.size());
  int64_t needed = std::max<int64_t>(0, pages_for(sequence.length + num_tokens, shape_.page_tokens) - held);
  // Only a page that holds kept tokens and takes new ones is ever both shared and written: fork drops later pages.
  for (int64_t page = sequence.length / shape_.page_tokens; page < held; ++page)
    if (references_[static_cast<size_t>(sequence.pages[static_cast<size_t>(page)])] > 1) ++needed;
  return needed;
}

bool KvPool::reserve(KvPages& sequence, int64_t num_tokens) {
  if (pages_needed(sequence, num_tokens) > num_free()) return false;
  if (num_tokens == 0) return true;
  const auto take = [&] {
    const int32_t page = free_.back();
    free_.pop_back();
    references_[static_cast<size_t>(page)] = 1;
    return page;
  };
  for (size_t i = static_cast<size_t>(sequence.length / shape_.page_tokens); i < sequence.pages.size(); ++i) {
    const int32_t shared = sequence.pages[i];
    if (references_[static_cast<size_t>(shared)] == 1) continue;
    const int32_t own = take();
    for (const auto& storage : {std::cref(keys_), std::cref(values_)})
      for (const Tensor& layer : storage.get()) copy_page(layer, shared, own);
    if (on_disk_) on_disk_->copy_page(shared, own);
    --references_[static_cast<size_t>(shared)];
    sequence.pages[i] = own;
    ++num_copied_;
  }
  const int64_t total = pages_for(sequence.length + num_tokens, shape_.page_tokens);
  while (static_cast<int64_t>(sequence.pages.size()) < total) sequence.pages.push_back(take());
  return true;
}

KvPages KvPool::fork(const KvPages& from, int64_t length) {
  TERN_CHECK(length <= from.length, "KvPool::fork: {} of {} tokens", length, from.length);
  KvPages copy;
  copy.length = length;
  copy.pages.assign(from.pages.begin(), from.pages.begin() + pages_for(length, shape_.page_tokens));
  for (const int32_t page : copy.pages) ++references_[static_cast<size_t>(page)];
  return copy;
}

void KvPool::release(KvPages& sequence) {
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) {
    int32_t& references = references_[static_cast<size_t>(*page)];
    TERN_CHECK(references > 0, "KvPool::release: page {} was free", *page);
    if (--references == 0) free_.push_back(*page);
  }
  sequence = {};
}

void KvPool::truncate(KvPages& sequence, int64_t length) {
  KvPages kept = fork(sequence, length);
  release(sequence);
  sequence = std::move(kept);
}

KvView KvPool::view(std::span<const KvPages* const> sequences) const {
  KvView view{.page_tokens = shape_.page_tokens,
              .past = {},
              .begins = {0},
              .pages = {},
              .keys = keys_,
              .values = values_,
              .code = shape_.type};
  for (const KvPages* sequence : sequences) {
    view.past.push_back(sequence->length);
    view.pages.insert(view.pages.end(), sequence->pages.begin(), sequence->pages.end());
    view.begins.push_back(static_cast<int64_t>(view.pages.size()));
  }
  return view;
}

}  // namespace tern
