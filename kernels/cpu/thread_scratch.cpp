#include "kernels/cpu/thread_scratch.h"

#include <cstddef>
#include <new>

#include "base/pages.h"

namespace tern {

namespace {

constexpr std::align_val_t kLine{64};
constexpr int64_t kPagesFrom = 128 << 10;  // what the C library was given back it may keep, beside what is counted

struct Buffer {
  void* data = nullptr;
  int64_t size = 0;
  bool pages = false;

  ~Buffer() { drop(); }
  void drop() {
    if (pages)
      unmap_pages(data, static_cast<size_t>(size));
    else
      ::operator delete[](data, kLine);
    data = nullptr;
    size = 0;
  }
  void take(int64_t bytes) {
    pages = bytes >= kPagesFrom && takes_pages();
    const auto page = static_cast<int64_t>(page_bytes());
    const int64_t whole = pages ? (bytes + page - 1) / page * page : bytes;
    data = pages ? map_pages(static_cast<size_t>(whole)) : ::operator new[](static_cast<size_t>(bytes), kLine);
    if (!data) throw std::bad_alloc();
    size = whole;
  }
};

thread_local Buffer buffer;

}  // namespace

void* thread_scratch(int64_t bytes) {
  if (buffer.size < bytes) {
    buffer.drop();
    buffer.take(bytes);
  }
  return buffer.data;
}

int64_t thread_scratch_held() { return buffer.size; }
void drop_thread_scratch() { buffer.drop(); }

}  // namespace tern
