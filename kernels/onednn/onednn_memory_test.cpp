// What oneDNN takes from the C library while it multiplies, seen by standing between them. Not under a sanitizer, which
// stands there itself.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/sanitized.h"
#include "base/threads.h"
#include "base/threads_testing.h"
#include "kernels/cpu/matmul.h"
#include "kernels/dispatch.h"
#include "kernels/kernel_testing.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/onednn/onednn_matmul.h"

#if defined(__GLIBC__) && !defined(TERN_SANITIZED)
#include <malloc.h>

namespace {
constexpr size_t kSmall = 4096;  // below lie its handles and the threads' flags
std::atomic<bool> watching{false};
std::mutex mutex;
std::array<void*, 256> blocks{};  // of what was taken while watching
int64_t taken = 0, peak = 0;

bool swap_block(void* from, void* to) {
  const auto found = std::find(blocks.begin(), blocks.end(), from);
  if (found == blocks.end()) return false;
  *found = to;
  return true;
}
}  // namespace

extern "C" {
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
[[gnu::visibility("default")]] int posix_memalign(void** p, size_t alignment, size_t size) {
  *p = __libc_memalign(alignment, size);
  if (!*p) return ENOMEM;
  if (watching && malloc_usable_size(*p) >= kSmall) {
    const std::lock_guard lock(mutex);
    if (!swap_block(nullptr, *p)) std::abort();
    taken += static_cast<int64_t>(malloc_usable_size(*p));
    peak = std::max(peak, taken);
  }
  return 0;
}
[[gnu::visibility("default")]] void free(void* p) {
  if (watching && p && malloc_usable_size(p) >= kSmall) {
    const std::lock_guard lock(mutex);
    if (swap_block(p, nullptr)) taken -= static_cast<int64_t>(malloc_usable_size(p));
  }
  __libc_free(p);
}
}

namespace tern {
namespace {

// Result rows, columns and sums of every kind: long and short, beyond a block, of one row.
constexpr std::array<ProductSize, 7> kMemorySizes = {
    {{256, 4096, 64}, {700, 600, 300}, {600, 11000, 8}, {4100, 500, 8}, {1, 3000, 900}, {33, 31, 3000}, {300, 24, 24}}};

int64_t said_ever = 0, taken_ever = 0;

/// Calls twice; says on standard error what was not as said. The first call makes the kernel.
template <class Call>
bool takes(const char* what, ProductSize s, int64_t said, Call call) {
  call();
  taken = peak = 0;
  watching = true;
  call();
  watching = false;
  said_ever = std::max(said_ever, said);
  taken_ever = std::max(taken_ever, peak);
  if (peak <= said + (64 << 10)) return true;
  std::fprintf(stderr, "%s of %ld × %ld × %ld, %d threads: %ld bytes said, %ld taken\n", what, static_cast<long>(s.m),
               static_cast<long>(s.n), static_cast<long>(s.k), num_compute_threads(), static_cast<long>(said),
               static_cast<long>(peak));
  return false;
}

template <class T>
bool takes_what_was_said(ProductSize s) {
  constexpr DType kType = DTypeOf<T>::value;
  const std::vector<T> x(static_cast<size_t>(s.m * s.k)), w(static_cast<size_t>(s.n * s.k)),
      dy(static_cast<size_t>(s.m * s.n));
  std::vector<T> y(dy.size()), dx(x.size());
  std::vector<float> dw(w.size());
  const auto of = [&](auto bytes, LinearProduct p) { return bytes(p, kType, s.m, s.n, s.k); };
  int64_t scratch_bytes = 0;
  for (const LinearProduct p : {LinearProduct::forward, LinearProduct::input_gradient, LinearProduct::weight_gradient})
    scratch_bytes = std::max(scratch_bytes, of(fast_scratch_bytes, p));
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
  const std::span<const T> bias(w.data(), static_cast<size_t>(s.k == 300 ? s.n : 0));
  return takes("forward", s, of(fast_library_bytes, LinearProduct::forward),
               [&] { multiply_fast<T, T>(x, w, bias, s.m, s.n, s.k, y, scratch); }) &&
         takes("input gradient", s, of(fast_library_bytes, LinearProduct::input_gradient),
               [&] { multiply_fast_input_gradient<T>(dy, w, s.m, s.n, s.k, false, dx, scratch); }) &&
         takes("weight gradient", s, of(fast_library_bytes, LinearProduct::weight_gradient),
               [&] { multiply_fast_weight_gradient<T>(dy, x, s.m, s.n, s.k, dw, scratch); });
}

[[noreturn]] void measure_under(Isa isa) {
  setenv("TERN_ISA", std::string(name_of(isa)).c_str(), 1);
  bool well = true;
  for (const int threads : {2, 5})
    with_threads(threads, [&] {
      for (const ProductSize s : kMemorySizes)
        well = takes_what_was_said<float>(s) && takes_what_was_said<bf16>(s) && well;
    });
  // A part of the products does without: but where none takes anything, nothing was seen.
  if (said_ever > 0 && taken_ever == 0) {
    std::fprintf(stderr, "%ld bytes said, %ld seen\n", static_cast<long>(said_ever), static_cast<long>(taken_ever));
    well = false;
  }
  std::exit(well ? 0 : 1);
}

/// oneDNN is told its set once, so each is a process of its own.
TEST(OnednnMemoryDeathTest, AProductTakesNoMoreThanWasSaidUnderAnySet) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const Isa isa : available_isas())
    EXPECT_EXIT(measure_under(isa), testing::ExitedWithCode(0), "") << name_of(isa);
}

TEST(OnednnMemory, GrowsWithRowsAndThreads) {
  for (const LinearProduct product :
       {LinearProduct::forward, LinearProduct::input_gradient, LinearProduct::weight_gradient})
    for (const bool avx512 : {false, true})
      for (const int threads : {1, 2, 64}) {
        for (const auto& [n, k] : {std::pair{300, 70}, std::pair{1024, 4096}, std::pair{64, 4096},
                                   std::pair{128256, 64}, std::pair{1, 500}, std::pair{500, 1}}) {
          int64_t before = 0;
          for (int64_t m = 1; m < 40000; m += m < 140 ? 1 : m / 3) {
            const OnednnProduct p{product, DType::f32, DType::f32, false, false, m, n, k};
            const int64_t bytes = onednn_general_bytes(p, avx512, threads);
            ASSERT_GE(bytes, before) << m << " rows, " << n << " by " << k;
            ASSERT_LT(bytes, onednn_general_bytes(p, avx512, threads + 1));
            before = bytes;
          }
        }
      }
}

}  // namespace
}  // namespace tern
#endif
