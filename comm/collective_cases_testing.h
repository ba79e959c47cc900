#pragma once
// For tests: every collective on every type and some lengths, what each rank has after it, and bytes that must be those of the closed forms.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "comm/comm.h"
#include "comm/ranks_testing.h"
#include "spec/layout.h"

namespace tern {

inline constexpr std::array kCollectiveTypes{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,    DType::i32,
                                             DType::i16, DType::u16, DType::i8,   DType::u8,  DType::boolean};

// Small numbers of every type, other ones at each rank.
inline void fill_for_rank(const Tensor& t, int rank) {
  for (int64_t i = 0; i < t.count(); ++i) {
    const double x = random_normal({7, static_cast<uint64_t>(rank)}, static_cast<uint64_t>(i));
    const auto whole = static_cast<int64_t>(9 * x);
    auto* at = static_cast<char*>(t.data()) + i * size_of(t.dtype());
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (t.dtype()) {
      case DType::f64:
        put(x);
        break;
      case DType::f32:
        put(static_cast<float>(x));
        break;
      case DType::bf16:
        put(to_bf16(static_cast<float>(x)));
        break;
      case DType::f16:
        put(to_f16(static_cast<float>(x)));
        break;
      case DType::boolean:
        put(static_cast<uint8_t>(whole & 1));
        break;
      default:
        std::memcpy(at, &whole, static_cast<size_t>(size_of(t.dtype())));
    }
  }
}

inline std::string text_of_bytes(const Tensor& t) {
  return t.count() == 0 ? "" : std::string(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
}

// What a rank has after each collective, one after the other.
using Seen = std::vector<std::string>;

inline Seen all_collectives(Comm& comm, DType dtype, int64_t count) {
  Arena arena;
  Seen seen;
  const int n = comm.size(), me = comm.rank();
  std::vector<LinkBytes> before;
  for (int peer = 0; peer < n; ++peer) before.push_back(comm.transport().bytes(peer));
  const auto fresh = [&] {
    Tensor t = arena.allocate(dtype, {count}, MemoryClass::workspace);
    fill_for_rank(t, me);
    return t;
  };
  const auto done = [&](const Tensor& t) { seen.push_back(text_of_bytes(t)); };
  if (dtype != DType::boolean) {
    Tensor all = fresh(), part = fresh();
    comm.all_reduce_sum({&all, 1}), done(all);
    comm.reduce_scatter_sum({&part, 1});
    const Interval mine = part_of(count, me, n);
    done(part.rows_view(mine.begin, mine.end));
  }
  Tensor gathered = fresh(), given = fresh();
  comm.all_gather({&gathered, 1}), done(gathered);
  comm.broadcast(given, n - 1), done(given);
  std::vector<Tensor> send, receive;
  const auto amount = [&](int from, int to) {
    return (from + 2 * to) % 5 * (count / 4) + (from == to ? 0 : count % 4);
  };
  for (int r = 0; r < n; ++r) {
    send.push_back(arena.allocate(dtype, {amount(me, r)}, MemoryClass::workspace));
    receive.push_back(arena.allocate(dtype, {amount(r, me)}, MemoryClass::workspace));
    fill_for_rank(send.back(), 100 * me + r);
  }
  comm.all_to_all(send, receive);
  for (const Tensor& t : receive) done(t);
  for (int peer = 0; peer < n; ++peer) {
    const int64_t size = size_of(dtype);
    LinkBytes want = before[static_cast<size_t>(peer)];
    if (peer != me) {
      if (dtype != DType::boolean) {
        want += all_reduce_bytes(count, size, me, peer, n);
        want += reduce_scatter_bytes(count, size, me, peer, n);
      }
      want += all_gather_bytes(count, size, me, peer, n);
      want += broadcast_bytes(count, size, n - 1, me, peer);
      want += {amount(me, peer) * size, amount(peer, me) * size};
    }
    EXPECT_EQ(comm.transport().bytes(peer), want) << count << " of " << name_of(dtype) << ", peer " << peer;
  }
  return seen;
}

inline constexpr int64_t kPieceAndMore = kPieceElements + 13;
inline std::vector<Seen> all_cases(Comm& comm) {
  std::vector<Seen> seen;
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1000}})
    for (const DType dtype : kCollectiveTypes) seen.push_back(all_collectives(comm, dtype, count));
  if (comm.size() <= 3) seen.push_back(all_collectives(comm, DType::f32, kPieceAndMore));
  return seen;
}

// A tensor's first numbers again and again, to its end.
inline constexpr int64_t kRepeated = 10007;
inline void repeat_head(const Tensor& t) {
  const int64_t head = t.rows_view(0, kRepeated).bytes(), bytes = t.bytes();
  auto* const x = static_cast<std::byte*>(t.data());
  for (int64_t at = head; at < bytes; at += head)
    std::memcpy(x + at, x, static_cast<size_t>(std::min(head, bytes - at)));
}

// Sums of 64 MiB and three elements, a little more than whole pieces, of each type: each rank gets what the ranks of a
// ThreadWorld with a baton get.
inline void expect_large_sums(Comm& comm) {
  for (const DType dtype : kCollectiveTypes) {
    Arena arena;
    const int64_t count = (int64_t{64} << 20) / size_of(dtype) + 3;
    const Tensor want = arena.allocate(dtype, {count}, MemoryClass::workspace);
    fill_for_rank(want.rows_view(0, kRepeated), 0);
    if (dtype != DType::boolean)  // booleans have no sum: the first rank's are sent
      with_comms(comm.size(), {.baton = true}, [&](Comm& of_threads) {
        Arena own;
        const Tensor head = own.allocate(dtype, {kRepeated}, MemoryClass::workspace);
        fill_for_rank(head, of_threads.rank());
        of_threads.all_reduce_sum({&head, 1});
        if (of_threads.rank() == 0) std::memcpy(want.data(), head.data(), static_cast<size_t>(head.bytes()));
      });
    repeat_head(want);
    const Tensor t = arena.allocate(dtype, {count}, MemoryClass::workspace);
    fill_for_rank(t.rows_view(0, kRepeated), comm.rank()), repeat_head(t);
    dtype == DType::boolean ? comm.broadcast(t, 0) : comm.all_reduce_sum({&t, 1});
    EXPECT_EQ(std::memcmp(t.data(), want.data(), static_cast<size_t>(want.bytes())), 0)
        << name_of(dtype) << ", rank " << comm.rank();
  }
}

}  // namespace tern
