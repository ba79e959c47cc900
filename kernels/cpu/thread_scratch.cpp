#include "kernels/cpu/thread_scratch.h"

#include <cstddef>
#include <new>

namespace tern {

void* thread_scratch(int64_t bytes) {
  constexpr std::align_val_t kLine{64};
  struct Buffer {
    void* data = nullptr;
    int64_t size = 0;
    ~Buffer() { ::operator delete[](data, kLine); }
  };
  thread_local Buffer buffer;
  if (buffer.size < bytes) {
    ::operator delete[](buffer.data, kLine);
    buffer.data = nullptr;
    buffer.size = 0;
    buffer.data = ::operator new[](static_cast<size_t>(bytes), kLine);
    buffer.size = bytes;
  }
  return buffer.data;
}

}  // namespace tern
