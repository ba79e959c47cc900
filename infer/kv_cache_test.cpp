#include "infer/kv_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tern {
namespace {

const KvShape kCacheShape{.layers = {{3, 5}, {2, 7}}, .page_tokens = 4, .type = KvType::f32};

KvView view_of(const KvPool& pool, const KvPages& s) {
  const KvPages* one = &s;
  return pool.view({&one, 1});
}
void write(const KvPool& pool, const KvPages& s, int64_t position, float value) {
  for (const Tensor& layer : view_of(pool, s).keys) {
    const int64_t width = layer.shape()[1] * layer.shape()[3];
    const int64_t page = s.pages[static_cast<size_t>(position / kCacheShape.page_tokens)];
    const auto all = layer.span<float>();
    for (int64_t i = 0; i < width; ++i)
      all[static_cast<size_t>((page * kCacheShape.page_tokens + position % kCacheShape.page_tokens) * width + i)] =
          value;
  }
}
float read(const KvPool& pool, const KvPages& s, int64_t position) {
  const Tensor& layer = view_of(pool, s).keys.back();
  const int64_t width = layer.shape()[1] * layer.shape()[3];
  const int64_t page = s.pages[static_cast<size_t>(position / kCacheShape.page_tokens)];
  return layer.span<float>()[static_cast<size_t>((page * kCacheShape.page_tokens + position % kCacheShape.page_tokens) *
                                                 width)];
}

TEST(KvPool, CountsItsBytes) {
  Arena arena;
  const KvPool pool(kCacheShape, 7, arena);
  EXPECT_EQ(kCacheShape.bytes_per_token(), 2 * (3 * 5 + 2 * 7) * 4);
  EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::kv_cache)], 7 * kCacheShape.bytes_per_page());
}

TEST(KvPool, CountsTheBytesOfItsType) {
  for (const auto& [type, bytes] : {std::pair<KvType, int64_t>{KvType::bf16, 2 * (3 * 10 + 2 * 14)},
                                    {KvType::q8, 2 * (3 * 7 + 2 * 9)},
                                    {KvType::q4, 2 * (3 * 5 + 2 * 6)}}) {
    KvShape shape = kCacheShape;
    shape.type = type;
    Arena arena;
    const KvPool pool(shape, 7, arena);
    EXPECT_EQ(shape.bytes_per_token(), bytes);
    EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::kv_cache)], 7 * 4 * bytes);
  }
}

TEST(KvPool, RefusesWhatDoesNotFitAndChangesNothing) {
  Arena arena;
  KvPool pool(kCacheShape, 2, arena);
  KvPages s;
  EXPECT_FALSE(pool.reserve(s, 9));
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(s.pages.empty());
  EXPECT_TRUE(pool.reserve(s, 8));
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(KvPool, ForkSharesUntilWritten) {
  Arena arena;
  KvPool pool(kCacheShape, 8, arena);
  KvPages a;
  ASSERT_TRUE(pool.reserve(a, 6));
  for (int64_t p = 0; p < 6; ++p) write(pool, a, p, static_cast<float>(p));
  a.length = 6;
  KvPages b = pool.fork(a, 5);  // page 1 is shared and half used
  EXPECT_EQ(pool.num_free(), 6);
  EXPECT_EQ(pool.pages_needed(b, 1), 1);
  ASSERT_TRUE(pool.reserve(b, 1));
  EXPECT_EQ(pool.num_copied_pages(), 1);
  write(pool, b, 5, 50.f);
  EXPECT_EQ(read(pool, a, 5), 5.f);
  EXPECT_EQ(read(pool, b, 5), 50.f);
  EXPECT_EQ(read(pool, b, 4), 4.f);
  EXPECT_EQ(a.pages[0], b.pages[0]);
  pool.release(a);
  EXPECT_EQ(read(pool, b, 0), 0.f);
  EXPECT_EQ(pool.num_free(), 6);
  pool.release(b);
  EXPECT_EQ(pool.num_free(), 8);
}

TEST(KvPool, RandomEventsLeakNoPageAndShareNoWritablePage) {
  const unsigned seed = 20261121;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Arena arena;
  KvPool pool(kCacheShape, 40, arena);
  std::vector<KvPages> live;
  for (int event = 0; event < 20000; ++event) {
    const unsigned kind = random() % 4;
    if (kind == 0 || live.empty()) live.emplace_back();
    KvPages& s = live[random() % live.size()];
    if (kind <= 1) {
      const auto n = static_cast<int64_t>(1 + random() % 9);
      if (pool.reserve(s, n)) {
        for (int64_t p = s.length / kCacheShape.page_tokens; p < static_cast<int64_t>(s.pages.size()); ++p)
          for (const KvPages& other : live)
            if (&other != &s) {
              ASSERT_EQ(std::count(other.pages.begin(), other.pages.end(), s.pages[static_cast<size_t>(p)]), 0);
            }
        s.length += n;
      }
    } else if (kind == 2 && s.length > 0) {
      live.push_back(pool.fork(s, static_cast<int64_t>(random() % static_cast<unsigned>(s.length + 1))));
    } else if (kind == 3) {
      pool.release(s);
      std::swap(s, live.back());
      live.pop_back();
    }
    std::set<int32_t> used;
    for (const KvPages& l : live) used.insert(l.pages.begin(), l.pages.end());
    ASSERT_EQ(pool.num_free() + static_cast<int64_t>(used.size()), 40);
  }
}

TEST(KvPool, TruncatingGivesBackWhatLiesBehind) {
  Arena arena;
  KvPool pool(kCacheShape, 8, arena);
  KvPages a;
  ASSERT_TRUE(pool.reserve(a, 14));
  for (int64_t p = 0; p < 14; ++p) write(pool, a, p, static_cast<float>(p));
  a.length = 14;
  pool.truncate(a, 6);
  EXPECT_EQ(a.length, 6);
  EXPECT_EQ(pool.num_free(), 6);
  ASSERT_TRUE(pool.reserve(a, 1));
  EXPECT_EQ(pool.num_copied_pages(), 0) << "nobody else has its pages";
  EXPECT_EQ(read(pool, a, 5), 5.f);
  pool.release(a);
  EXPECT_EQ(pool.num_free(), 8);
}

}  // namespace
}  // namespace tern
