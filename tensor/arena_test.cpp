#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process_memory.h"
#include "tensor/block_store.h"

namespace tern {
namespace {

constexpr auto kWeights = static_cast<size_t>(MemoryClass::weights);
constexpr auto kWorkspace = static_cast<size_t>(MemoryClass::workspace);

TEST(Arena, CountsLogicalBytesPerClassAndTakesThemBackWhenTheLastHandleGoes) {
  Arena arena;
  Tensor a = arena.allocate(DType::bf16, {3, 5}, MemoryClass::weights);
  EXPECT_EQ(arena.current()[kWeights], 30);
  Tensor view = a.rows_view(1, 2);
  a = {};
  EXPECT_EQ(arena.current()[kWeights], 30) << "a view keeps the storage";
  view = {};
  EXPECT_EQ(arena.current_total(), 0);
  EXPECT_EQ(arena.peak()[kWeights], 30);
  EXPECT_EQ(arena.num_allocations(), 1);
}

TEST(Arena, PeakOfTheSumIsNotTheSumOfPeaks) {
  Arena arena;
  { Tensor a = arena.bytes(100, MemoryClass::weights); }
  Tensor b = arena.bytes(70, MemoryClass::workspace);
  EXPECT_EQ(arena.peak_total(), 100);
  EXPECT_EQ(arena.at_peak()[kWeights], 100);
  EXPECT_EQ(arena.at_peak()[kWorkspace], 0);
  EXPECT_EQ(arena.peak()[kWorkspace], 70);
  Tensor c = arena.bytes(50, MemoryClass::workspace);
  EXPECT_EQ(arena.peak_total(), 120);
  EXPECT_EQ(arena.at_peak()[kWeights], 0) << "its own peak was earlier";
  EXPECT_EQ(arena.at_peak()[kWorkspace], 120);
}

TEST(PeakScope, BeginsAtWhatIsThereAndDisturbsNobody) {
  Arena arena;
  { Tensor gone = arena.bytes(100, MemoryClass::weights); }
  const Tensor kept = arena.bytes(70, MemoryClass::workspace);
  const PeakScope outer(arena);
  EXPECT_EQ(outer.peak().total, 70);
  EXPECT_EQ(outer.peak().each[kWeights], 0);
  { Tensor a = arena.bytes(20, MemoryClass::weights); }
  {
    const PeakScope inner(arena);
    { Tensor a = arena.bytes(5, MemoryClass::weights); }
    EXPECT_EQ(inner.peak().total, 75);
    EXPECT_EQ(inner.peak().each[kWeights], 5);
  }
  EXPECT_EQ(outer.peak().total, 90) << "the inner scope neither raised nor lowered it";
  EXPECT_EQ(outer.peak().each[kWeights], 20);
  EXPECT_EQ(outer.peak().each[kWorkspace], 70);
  EXPECT_EQ(arena.peak_total(), 100);
}

TEST(Arena, RefusesBeyondTheLimitNamingClassAndBytesAndCountsNothing) {
  Arena arena;
  arena.set_limit(100);
  Tensor a = arena.bytes(60, MemoryClass::weights);
  try {
    arena.bytes(41, MemoryClass::kv_cache);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    EXPECT_NE(std::string(e.what()).find("41 more bytes of kv_cache"), std::string::npos) << e.what();
  }
  EXPECT_EQ(arena.current_total(), 60);
  EXPECT_NO_THROW(arena.bytes(40, MemoryClass::kv_cache));
}

TEST(Arena, AnImpossibleSizeIsAnErrorAndNotACrash) {
  Arena arena;
  EXPECT_THROW(arena.bytes((int64_t{1} << 62) + 1, MemoryClass::workspace), Error);
  EXPECT_THROW(arena.bytes(int64_t{1} << 60, MemoryClass::workspace), Error);
  EXPECT_EQ(arena.current_total(), 0);
}

TEST(Arena, AlignsTo64BytesAndPoisonsWhenAsked) {
  Arena arena;
  arena.set_poison(true);
  for (int64_t n : {0, 1, 7, 63, 64, 65, 4097}) {
    const Tensor t = arena.allocate(DType::f32, {n}, MemoryClass::workspace);
    EXPECT_FALSE(t.empty());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u) << n;
    for (float x : t.span<float>()) EXPECT_TRUE(std::isnan(x));
  }
  const Tensor zeros = arena.zeros(DType::f32, {65}, MemoryClass::workspace);
  for (float x : zeros.span<float>()) EXPECT_EQ(x, 0.f);
}

TEST(Arena, TensorsOutliveTheArena) {
  Tensor t;
  {
    Arena arena;
    t = arena.zeros(DType::f64, {4}, MemoryClass::weights);
  }
  t.span<double>()[3] = 1;
  EXPECT_EQ(t.span<double>()[3], 1);
}

TEST(Arena, CountsAreExactUnderThreads) {
  Arena arena;
  Tensor kept = arena.bytes(5, MemoryClass::weights);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&arena] {
      for (int n = 0; n < 1000; ++n) {
        Tensor a = arena.bytes(n % 97, MemoryClass::workspace), b = arena.bytes(3, MemoryClass::weights);
      }
    });
  threads.clear();
  EXPECT_EQ(arena.current_total(), 5);
  EXPECT_EQ(arena.num_allocations(), 8001);
}

TEST(Tensor, ViewsShareElements) {
  Arena arena;
  Tensor t = arena.zeros(DType::i32, {4, 3}, MemoryClass::weights);
  t.rows_view(2, 4).span<int32_t>()[0] = 7;
  EXPECT_EQ(t.span<int32_t>()[6], 7);
  const Tensor flat = t.reshaped({2, 6});
  EXPECT_EQ(flat.span<int32_t>()[6], 7);
  EXPECT_EQ(flat.rows(), 2);
  EXPECT_EQ(t.rows_view(1, 1).count(), 0);
  EXPECT_EQ(to_string(Shape{3, 4}), "(3, 4)");
}

TEST(Tensor, BrokenPromisesAreCaught) {
  Arena arena;
  const Tensor t = arena.zeros(DType::i32, {4, 3}, MemoryClass::weights);
  EXPECT_ANY_THROW(t.span<float>());
  EXPECT_ANY_THROW(t.reshaped({5}));
  EXPECT_ANY_THROW(t.rows_view(2, 5));
  EXPECT_ANY_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}.count()));
  EXPECT_ANY_THROW((Shape{-1}));
}

TEST(Arena, LargeBlocksAreKeptForTheNextTensorOfTheirSizeAndCountNothing) {
  constexpr int64_t kBytes = int64_t{3} << 20;
  if (!BlockStore::keeps(kBytes)) GTEST_SKIP() << "nothing is kept under a sanitizer";
  Arena arena;
  Tensor first = arena.bytes(kBytes, MemoryClass::workspace);
  const void* place = first.data();
  first = {};
  EXPECT_EQ(arena.current_total(), 0);
  const Tensor again = arena.bytes(kBytes, MemoryClass::activations);
  EXPECT_EQ(again.data(), place);
  const Tensor other = arena.bytes(kBytes, MemoryClass::activations);
  EXPECT_NE(other.data(), place);
  EXPECT_EQ(arena.current_total(), 2 * kBytes);
}

// Blocks of 2 MiB and more by the dozen, and small ones that the C library would keep.
TEST(Arena, WhatItKeptIsNotResidentAfterItsEnd) {
  if (!BlockStore::keeps(int64_t{3} << 20)) GTEST_SKIP() << "a sanitizer keeps what was freed";
  for (const int64_t bytes : {int64_t{5} << 20, int64_t{3} << 20, int64_t{96} << 10}) {
    const int64_t count = (int64_t{60} << 20) / bytes, before = read_process_memory().resident_bytes;
    Arena arena;
    {
      std::vector<Tensor> all;
      for (int64_t i = 0; i < count; ++i) {
        all.push_back(arena.bytes(bytes, MemoryClass::workspace));
        std::memset(all.back().data(), 1, static_cast<size_t>(bytes));
      }
      EXPECT_GE(read_process_memory().resident_bytes - before, count * bytes);
    }
    arena = Arena();
    EXPECT_LE(read_process_memory().resident_bytes - before, int64_t{8} << 20) << bytes;
  }
}

}  // namespace
}  // namespace tern
