#include "comm/comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "comm/ranks_testing.h"
#include "spec/layout.h"
#include "spec/sum_order.h"
#include "tensor/arena.h"
#include "tensor/bytes_of.h"

namespace tern {
namespace {

TEST(Messages, OfStagesAreNamedByUnitAndMicroBatch) {
  const uint64_t number = (uint64_t{12} << 32 | 3) << 1;
  EXPECT_EQ(describe_tag(tag_of(MessageKind::stage, number)), "output of unit 12, micro-batch 3");
  EXPECT_EQ(describe_tag(tag_of(MessageKind::stage, number | 1)), "gradient of unit 12, micro-batch 3");
  EXPECT_EQ(describe_tag(tag_of(MessageKind::all_gather, 17)), "all-gather 17");
}

TEST(SoloComm, IsATrueNoOp) {
  Arena arena;
  Tensor t = arena.allocate(DType::f32, {3}, MemoryClass::gradients);
  const std::array<float, 3> before{1.5f, -0.f, NAN};
  std::memcpy(t.data(), before.data(), sizeof before);
  const auto comm = make_solo_comm();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  const int64_t allocations = arena.num_allocations();
  comm->all_reduce_sum({&t, 1});
  comm->broadcast(t, 0);
  comm->all_to_all({&t, 1}, {&t, 1});
  comm->barrier();
  EXPECT_EQ(std::memcmp(t.data(), before.data(), sizeof before), 0) << "bits, so -0 and NaN count";
  EXPECT_EQ(comm->bytes(), LinkBytes{});
  EXPECT_EQ(arena.num_allocations(), allocations);
  EXPECT_EQ(comm->staging().num_allocations(), 0);
}

constexpr std::array kSummed{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                             DType::i32, DType::i16, DType::u16,  DType::i8,  DType::u8};

// Random bits of a type, but only small finite numbers of the floats.
void fill(const Tensor& t, uint64_t seed) {
  auto* bytes = static_cast<uint8_t*>(t.data());
  const auto number = [&](int64_t i) { return static_cast<float>(random_normal({seed, 3}, static_cast<uint64_t>(i))); };
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (t.dtype()) {
      case DType::f64:
        t.span<double>()[i] = 1e-3 + 3.0 * number(i);
        break;
      case DType::f32:
        t.span<float>()[i] = 3.0f * number(i);
        break;
      case DType::bf16:
        t.span<bf16>()[i] = to_bf16(number(i));
        break;
      case DType::f16:
        t.span<f16>()[i] = to_f16(number(i));
        break;
      default:
        for (int64_t b = 0; b < size_of(t.dtype()); ++b)
          bytes[i * size_of(t.dtype()) + b] =
              static_cast<uint8_t>(256 * random_uniform({seed, 4}, static_cast<uint64_t>(8 * i + b)));
    }
  }
}

// The plain twin: all ranks' vectors in one place, leaf by leaf.
template <class T, class Wide>
void sum_tree(std::vector<std::vector<T>>& leaves, Wide (*widen)(T), T (*round)(Wide)) {
  for (size_t i = 0; i < leaves[0].size(); ++i) {
    std::vector<Wide> wide;
    for (const std::vector<T>& leaf : leaves) wide.push_back(widen(leaf[i]));
    for (const TreePair& p : tree_pairs(static_cast<int>(wide.size())))
      wide[p.left] = static_cast<Wide>(wide[p.left] + wide[p.right]);
    leaves[0][i] = round(wide[0]);
  }
}

template <class T>
std::vector<T> elements(const Tensor& t) {
  std::vector<T> all(static_cast<size_t>(t.count()));
  if (!all.empty()) std::memcpy(all.data(), t.data(), static_cast<size_t>(t.bytes()));
  return all;
}

template <class T, class Wide>
std::vector<std::byte> summed(const std::vector<Tensor>& inputs, Wide (*widen)(T), T (*round)(Wide)) {
  std::vector<std::vector<T>> leaves;
  for (const Tensor& t : inputs) leaves.push_back(elements<T>(t));
  sum_tree(leaves, widen, round);
  const auto bytes = std::as_bytes(std::span(leaves[0]));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> sum_ref(const std::vector<Tensor>& inputs) {
  switch (inputs[0].dtype()) {
    case DType::f64:
      return summed<double, double>(
          inputs, [](double x) { return x; }, [](double x) { return x; });
    case DType::f32:
      return summed<float, float>(
          inputs, [](float x) { return x; }, [](float x) { return x; });
    case DType::bf16:
      return summed<bf16, float>(
          inputs, [](bf16 x) { return to_float(x); }, [](float x) { return to_bf16(x); });
    case DType::f16:
      return summed<f16, float>(
          inputs, [](f16 x) { return to_float(x); }, [](float x) { return to_f16(x); });
    case DType::i64:
      return summed<uint64_t, uint64_t>(
          inputs, [](uint64_t x) { return x; }, [](uint64_t x) { return x; });
    case DType::i32:
      return summed<uint32_t, uint32_t>(
          inputs, [](uint32_t x) { return x; }, [](uint32_t x) { return x; });
    case DType::i16:
    case DType::u16:
      return summed<uint16_t, uint16_t>(
          inputs, [](uint16_t x) { return x; }, [](uint16_t x) { return x; });
    default:
      return summed<uint8_t, uint8_t>(
          inputs, [](uint8_t x) { return x; }, [](uint8_t x) { return x; });
  }
}

struct Vectors {
  Arena arena;
  std::vector<Tensor> inputs, work;  // per rank
  Vectors(DType dtype, int64_t count, int ranks) {
    for (int r = 0; r < ranks; ++r) {
      inputs.push_back(arena.allocate(dtype, {count}, MemoryClass::workspace));
      fill(inputs.back(), static_cast<uint64_t>(7 * count + r + 1));
      work.push_back(arena.allocate(dtype, {count}, MemoryClass::workspace));
      if (count > 0) std::memcpy(work.back().data(), inputs.back().data(), static_cast<size_t>(inputs.back().bytes()));
    }
  }
};

// Bytes by peer of one operation on a fresh transport.
void expect_bytes(Comm& comm, const std::function<LinkBytes(int rank, int peer)>& want, int& cases) {
  for (int peer = 0; peer < comm.size(); ++peer) EXPECT_EQ(comm.transport().bytes(peer), want(comm.rank(), peer));
  if (comm.rank() == 0) ++cases;
}

// Sizes about the numbers of ranks and about a piece.
const std::vector<int64_t> kCounts{0, 1, 2, 7, 31, 1000, kPieceElements + 13};

TEST(Collectives, ValuesAndBytesAreTheTwinsInEveryCase) {
  int cases = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const DType dtype : kSummed)
      for (const int64_t count : kCounts) {
        if (count > kPieceElements && (ranks > 3 || dtype == DType::f16 || dtype == DType::u16)) continue;
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " of " << name_of(dtype));
        const int64_t size = size_of(dtype);
        Vectors all(dtype, count, ranks), scattered(dtype, count, ranks);
        const std::vector<std::byte> want = sum_ref(all.inputs);
        with_comms(ranks, {.baton = true}, [&](Comm& comm) {
          const int me = comm.rank();
          comm.all_reduce_sum({&all.work[me], 1});
          expect_bytes(
              comm, [&](int r, int p) { return all_reduce_bytes(count, size, r, p, ranks); }, cases);
          EXPECT_TRUE(std::ranges::equal(bytes_of(all.work[me]), want)) << "all-reduce, rank " << me;
          EXPECT_LE(comm.staging().peak_total(), staging_elements((count + ranks - 1) / ranks, ranks) * size);
        });
        with_comms(ranks, {.baton = true}, [&](Comm& comm) {
          const int me = comm.rank();
          comm.reduce_scatter_sum({&scattered.work[me], 1});
          expect_bytes(
              comm, [&](int r, int p) { return reduce_scatter_bytes(count, size, r, p, ranks); }, cases);
          const Interval part = part_of(count, me, ranks);
          const auto at = static_cast<size_t>(part.begin * size), length = static_cast<size_t>(part.size() * size);
          EXPECT_TRUE(std::ranges::equal(bytes_of(scattered.work[me]).subspan(at, length),
                                         std::span(want).subspan(at, length)));
        });
        if (dtype != DType::f32 && dtype != DType::u8) continue;
        with_comms(ranks, {}, [&](Comm& comm) {
          comm.all_gather({&scattered.work[comm.rank()], 1});
          expect_bytes(
              comm, [&](int r, int p) { return all_gather_bytes(count, size, r, p, ranks); }, cases);
          EXPECT_TRUE(std::ranges::equal(bytes_of(scattered.work[comm.rank()]), want)) << "all-gather";
        });
        const int root = ranks - 1;
        with_comms(ranks, {}, [&](Comm& comm) {
          comm.broadcast(all.inputs[comm.rank()], root);
          expect_bytes(
              comm, [&](int r, int p) { return broadcast_bytes(count, size, root, r, p); }, cases);
        });
        for (const Tensor& t : all.inputs) EXPECT_TRUE(std::ranges::equal(bytes_of(t), bytes_of(all.inputs[root])));
      }
  EXPECT_GE(cases, 500);
}

// 64 MiB of every type, of numbers whose sums are exact: 0 to 60 at an element, one more on the second rank.
template <class T>
void expect_large_sum(DType dtype, T (*number)(int64_t)) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t count = kBytes / size_of(dtype) - 3;
  with_comms(2, {}, [&](Comm& comm) {
    Arena arena;
    Tensor t = arena.allocate(dtype, {count}, MemoryClass::workspace);
    auto* x = static_cast<T*>(t.data());
    for (int64_t i = 0; i < count; ++i) x[i] = number(i * 7 % 61 + comm.rank());
    comm.all_reduce_sum({&t, 1});
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      const T want = number(2 * (i * 7 % 61) + 1);
      wrong += std::memcmp(&x[i], &want, sizeof(T)) != 0;
    }
    EXPECT_EQ(wrong, 0) << name_of(dtype);
    EXPECT_EQ(comm.bytes(), all_reduce_bytes(count, size_of(dtype), comm.rank(), 2));
    EXPECT_LE(comm.staging().peak_total(), kPieceElements * size_of(dtype)) << "no copy of the vector";
  });
}

TEST(CollectivesSlow, SixtyFourMebibytesOfEveryType) {
  expect_large_sum<double>(DType::f64, [](int64_t n) { return static_cast<double>(n); });
  expect_large_sum<float>(DType::f32, [](int64_t n) { return static_cast<float>(n); });
  expect_large_sum<bf16>(DType::bf16, [](int64_t n) { return to_bf16(static_cast<float>(n)); });
  expect_large_sum<f16>(DType::f16, [](int64_t n) { return to_f16(static_cast<float>(n)); });
  expect_large_sum<int64_t>(DType::i64, [](int64_t n) { return n; });
  expect_large_sum<int32_t>(DType::i32, [](int64_t n) { return static_cast<int32_t>(n); });
  expect_large_sum<int16_t>(DType::i16, [](int64_t n) { return static_cast<int16_t>(n); });
  expect_large_sum<uint16_t>(DType::u16, [](int64_t n) { return static_cast<uint16_t>(n); });
  expect_large_sum<int8_t>(DType::i8, [](int64_t n) { return static_cast<int8_t>(n); });
  expect_large_sum<uint8_t>(DType::u8, [](int64_t n) { return static_cast<uint8_t>(n); });
}

// Whole numbers of bytes, whatever the rounding of parts: all ranks together move a ring's bytes.
TEST(Collectives, AllRanksTogetherMoveARingsBytes) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1001}, 5 * kPieceElements + 3}) {
      int64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) all += all_reduce_bytes(count, 4, rank, ranks).sent;
      EXPECT_EQ(all, 2 * (ranks - 1) * count * 4);
    }
}

// RankParts as unlike as those of owners: none, all, pieces of several tensors.
TEST(Collectives, UnlikePartsHaveTheSumsOfTheWholeAndTheirOwnBytes) {
  for (const int ranks : {2, 3, 5})
    for (const int64_t longest : {int64_t{900}, kPieceElements + 7}) {
      Vectors cut(DType::f32, 2 * longest + 11, ranks);
      const std::vector<std::byte> want = sum_ref(cut.inputs);
      with_comms(ranks, {}, [&](Comm& comm) {
        const Tensor& mine = cut.work[comm.rank()];
        RankParts parts(static_cast<size_t>(ranks));
        std::vector<int64_t> elements(parts.size(), 0);
        const auto give = [&](int rank, int64_t begin, int64_t end) {
          parts[static_cast<size_t>(rank)].push_back(mine.rows_view(begin, end));
          elements[static_cast<size_t>(rank)] += end - begin;
        };
        // The others have none.
        give(1, 0, longest), give(0, longest, longest + 11), give(1, longest + 11, 2 * longest + 11);
        comm.reduce_scatter_sum(parts);
        LinkBytes bytes = reduce_scatter_bytes(elements, 4, comm.rank());
        EXPECT_EQ(comm.bytes(), bytes);
        EXPECT_LE(comm.staging().peak_total(), 4 * staging_elements(2 * longest, ranks));
        comm.all_gather(parts);
        EXPECT_EQ(comm.bytes(), bytes += all_gather_bytes(elements, 4, comm.rank()));
        EXPECT_TRUE(std::ranges::equal(bytes_of(mine), want));
      });
    }
}

// A vector in parts has the bits of the vector as one: parts are cut from the whole.
TEST(Collectives, HowAVectorIsLaidOutChangesNoBit) {
  for (const int ranks : {2, 3, 8}) {
    const std::vector<int64_t> lengths{5, 0, 1, 300, 77, kPieceElements - 3, 9};
    int64_t count = 0;
    for (const int64_t n : lengths) count += n;
    Vectors whole(DType::f32, count, ranks), cut(DType::f32, count, ranks);
    with_comms(ranks, {}, [&](Comm& comm) {
      comm.all_reduce_sum({&whole.work[comm.rank()], 1});
      std::vector<Tensor> parts;
      for (int64_t begin = 0; const int64_t n : lengths)
        parts.push_back(cut.work[comm.rank()].rows_view(begin, begin + n)), begin += n;
      comm.all_reduce_sum(parts);
      EXPECT_TRUE(std::ranges::equal(bytes_of(whole.work[comm.rank()]), bytes_of(cut.work[comm.rank()])));
    });
  }
}

TEST(Collectives, FreeThreadsHaveTheBitsOfTheBaton) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Vectors free(dtype, 10'001, 5), turns(dtype, 10'001, 5);
    with_comms(5, {}, [&](Comm& comm) { comm.all_reduce_sum({&free.work[comm.rank()], 1}); });
    with_comms(5, {.baton = true}, [&](Comm& comm) { comm.all_reduce_sum({&turns.work[comm.rank()], 1}); });
    for (int r = 0; r < 5; ++r) EXPECT_TRUE(std::ranges::equal(bytes_of(free.work[r]), bytes_of(turns.work[r])));
  }
}

// Half of the sums need more than bf16 has: rounding between leaves would show.
TEST(Collectives, Bf16IsSummedInF32) {
  Arena arena;
  with_comms(3, {.baton = true}, [&](Comm& comm) {
    Tensor t = arena.allocate(DType::bf16, {1}, MemoryClass::workspace);
    t.span<bf16>()[0] = to_bf16(comm.rank() == 0 ? 256.f : 1.f);
    comm.all_reduce_sum({&t, 1});
    EXPECT_EQ(to_float(t.span<bf16>()[0]), 258.f) << "257 rounds to 256 in bf16";
  });
}

TEST(Collectives, SumsOfBooleansAreRefused) {
  Arena arena;
  const auto sum = [&] {
    with_comms(2, {.baton = true}, [&](Comm& comm) {
      Tensor t = arena.zeros(DType::boolean, {4}, MemoryClass::workspace);
      comm.all_reduce_sum({&t, 1});
    });
  };
  EXPECT_THROW(sum(), Error);
}

TEST(Collectives, UnevenAllToAllMovesWhatEachPairAgreedOn) {
  int cases = 0;
  for (const DType dtype : {DType::f32, DType::i8, DType::boolean})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const auto count = [&](int from, int to) {  // none between some pairs
          return static_cast<int64_t>(40 * random_uniform({seed, 9}, static_cast<uint64_t>(8 * from + to))) - 8;
        };
        const auto tensor = [&](Arena& arena, int from, int to) {
          return arena.bytes(std::max<int64_t>(count(from, to), 0) * size_of(dtype), MemoryClass::workspace);
        };
        with_comms(ranks, {}, [&](Comm& comm) {
          Arena arena;
          std::vector<Tensor> send, receive;
          const int me = comm.rank();
          for (int r = 0; r < ranks; ++r) {
            send.push_back(tensor(arena, me, r)), receive.push_back(tensor(arena, r, me));
            fill(send.back(), seed * 100 + static_cast<uint64_t>(10 * me + r));
          }
          comm.all_to_all(send, receive);
          for (int r = 0; r < ranks; ++r) {
            Tensor want = tensor(arena, r, me);
            fill(want, seed * 100 + static_cast<uint64_t>(10 * r + me));
            EXPECT_TRUE(std::ranges::equal(bytes_of(receive[r]), bytes_of(want))) << r << " to " << me;
          }
          expect_bytes(
              comm,
              [&](int r, int p) {
                return r == p ? LinkBytes{} : LinkBytes{send[p].bytes(), receive[p].bytes()};
              },
              cases);
        });
      }
  EXPECT_GT(cases, 50);
}

// Each tensor goes to the place that has its number, whatever else the pair sends.
TEST(Collectives, AllToAllOfSeveralTensorsKeepsTheirOrder) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    with_comms(ranks, {}, [&](Comm& comm) {
      Arena arena;
      // None between some pairs, or of no bytes; of one length for a pair, so that no check of lengths sees a wrong order.
      const auto parts = [&](int from, int to) {
        std::vector<Tensor> list;
        for (int i = 0; i < (from + 2 * to) % 4; ++i)
          list.push_back(arena.bytes(7 * ((from + to) % 3), MemoryClass::workspace));
        return list;
      };
      const auto seed = [](int from, int to, size_t i) { return static_cast<uint64_t>(100 * from + 10 * to) + i; };
      RankParts send, receive;
      const int me = comm.rank();
      for (int r = 0; r < ranks; ++r) {
        send.push_back(parts(me, r)), receive.push_back(parts(r, me));
        for (size_t i = 0; i < send.back().size(); ++i) fill(send.back()[i], seed(me, r, i));
      }
      comm.all_to_all(send, receive);
      for (int r = 0; r < ranks; ++r)
        for (size_t i = 0; i < receive[static_cast<size_t>(r)].size(); ++i) {
          const Tensor &got = receive[static_cast<size_t>(r)][i],
                       want = arena.bytes(got.bytes(), MemoryClass::workspace);
          fill(want, seed(r, me, i));
          EXPECT_TRUE(std::ranges::equal(bytes_of(got), bytes_of(want))) << r << " to " << me << ", " << i;
        }
    });
}

TEST(Collectives, IntegersValuesAndTextsReachEveryRank) {
  for (int ranks = 1; ranks <= 7; ++ranks)
    with_comms(ranks, {}, [&](Comm& comm) {
      const int64_t r = comm.rank();
      std::array<int64_t, 2> sum{r + 1, -r}, most{r, -r}, least{r, -r};
      comm.all_reduce(sum, Combine::sum);
      comm.all_reduce(most, Combine::most);
      comm.all_reduce(least, Combine::least);
      const int64_t n = ranks;
      EXPECT_EQ(sum, (std::array{n * (n + 1) / 2, -n * (n - 1) / 2}));
      EXPECT_EQ(most, (std::array{n - 1, int64_t{0}}));
      EXPECT_EQ(least, (std::array{int64_t{0}, 1 - n}));
      const std::array mine{0.5 * static_cast<double>(r), -1.0};
      const std::vector<double> all = comm.gather(mine);
      ASSERT_EQ(all.size(), static_cast<size_t>(2 * n));
      for (int64_t k = 0; k < n; ++k) EXPECT_EQ(all[static_cast<size_t>(2 * k)], 0.5 * static_cast<double>(k));
      EXPECT_EQ(comm.broadcast(r == n - 1 ? "step-7" : "something else", ranks - 1), "step-7");
      EXPECT_EQ(comm.broadcast(std::string(), 0), "");
    });
}

}  // namespace
}  // namespace tern
