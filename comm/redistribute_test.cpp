#include "comm/redistribute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/ranks_testing.h"

namespace tern {
namespace {

constexpr int64_t kRows = 12, kColumns = 10;

double value_at(int64_t row, int64_t column) { return static_cast<double>(100 * row + column + 1); }

// The summand of place `place` of `places`: whole numbers, so any order adds up exactly.
double summand_of(double value, int64_t place, int64_t places) {
  return place > 0 ? static_cast<double>(3 * place) - value : value - [&] {
    double rest = 0;
    for (int64_t p = 1; p < places; ++p) rest += static_cast<double>(3 * p) - value;
    return rest;
  }();
}

struct Place {
  int64_t at = 0, of = 1;
};
Place partial_place(const Layout& l, int rank) {
  const std::vector<int64_t> at = coordinates(l, rank);
  Place p;
  for (size_t a = 0; a < l.axes.size(); ++a)
    if (l.axes[a].spread == AxisSpread::partial) p.at = p.at * l.mesh[a] + at[a], p.of *= l.mesh[a];
  return p;
}

// Visits the elements of a rank in the order of its tensor.
template <class Visit>
void each_element(const Layout& l, int rank, Visit visit) {
  const Holding held = holding(l, rank);
  for (const Interval& rows : held[0])
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (const Interval& columns : held[1])
        for (int64_t c = columns.begin; c < columns.end; ++c) visit(r, c);
}

Tensor local_tensor(const Layout& l, int rank, Arena& arena) {
  Tensor t = arena.allocate(DType::f64, {local_count(holding(l, rank))}, MemoryClass::workspace);
  const Place place = partial_place(l, rank);
  size_t i = 0;
  each_element(l, rank,
               [&](int64_t r, int64_t c) { t.span<double>()[i++] = summand_of(value_at(r, c), place.at, place.of); });
  return t;
}

// Partial results are compared as sums; the rest element by element.
void expect_holds(const Layout& l, const std::vector<Tensor>& locals) {
  std::vector<double> sums(kRows * kColumns, 0);
  std::vector<int> times(sums.size(), 0);
  int64_t places = 1;
  for (int rank = 0; rank < l.num_ranks(); ++rank) {
    places = partial_place(l, rank).of;
    size_t i = 0;
    ASSERT_EQ(locals[rank].count(), local_count(holding(l, rank)));
    each_element(l, rank, [&](int64_t r, int64_t c) {
      const auto at = static_cast<size_t>(r * kColumns + c);
      sums[at] += locals[rank].span<double>()[i++];
      ++times[at];
    });
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) {
      const auto at = static_cast<size_t>(r * kColumns + c);
      const auto replicas = times[at] / static_cast<int>(places);
      ASSERT_GE(replicas, 1);
      ASSERT_EQ(sums[at], replicas * value_at(r, c)) << r << ", " << c;
    }
  if (places > 1) return;
  for (int rank = 0; rank < l.num_ranks(); ++rank) {
    size_t i = 0;
    each_element(l, rank, [&](int64_t r, int64_t c) { ASSERT_EQ(locals[rank].span<double>()[i++], value_at(r, c)); });
  }
}

// Every way to lie along one axis of n ranks.
std::vector<AxisLayout> ways(int64_t n, bool ragged) {
  std::vector<AxisLayout> all{whole(), split(0), split(1), split(0, {6, 4, 2}), partial()};
  if (!ragged) return all;
  std::vector<int64_t> bounds{0};
  for (int64_t i = 1; i < n; ++i) bounds.push_back(std::min(kRows, (i * i + 1) % 5 + bounds.back()));  // some empty
  bounds.push_back(kRows);
  all.push_back(split_at(0, bounds));
  return all;
}

std::vector<Layout> layouts(const std::vector<int64_t>& mesh) {
  std::vector<Layout> all;
  if (mesh.size() == 1) {
    for (const AxisLayout& a : ways(mesh[0], true)) all.push_back({DType::f64, {kRows, kColumns}, mesh, {a}});
    return all;
  }
  for (const AxisLayout& a : ways(mesh[0], true))
    for (const AxisLayout& b : ways(mesh[1], true)) {
      const bool same_dim = a.spread == AxisSpread::split && b.spread == AxisSpread::split && a.dim == b.dim;
      if (same_dim && (!a.bounds.empty() || !b.bounds.empty() || a.sections != b.sections)) continue;
      all.push_back({DType::f64, {kRows, kColumns}, mesh, {a, b}});
    }
  return all;
}

// All pairs over one number of ranks, whatever their meshes.
int check_pairs(int ranks, const std::vector<Layout>& all) {
  std::vector<Redistribution> pairs;
  for (const Layout& from : all)
    for (const Layout& to : all) pairs.push_back(redistribution(from, to));
  Arena arena;
  std::vector<std::vector<Tensor>> after(pairs.size(), std::vector<Tensor>(static_cast<size_t>(ranks)));
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    const int me = comm.rank();
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::vector<LinkBytes> counted;
      for (int peer = 0; peer < ranks; ++peer) counted.push_back(comm.transport().bytes(peer));
      after[i][me] =
          redistribute(pairs[i], local_tensor(pairs[i].from, me, arena), comm, MemoryClass::workspace, arena);
      const std::vector<int64_t> want = message_bytes(pairs[i]);
      bool as_planned = true;
      for (int peer = 0; peer < ranks; ++peer) {
        const LinkBytes now = comm.transport().bytes(peer);
        as_planned = as_planned && now.sent - counted[peer].sent == want[me * ranks + peer];
      }
      EXPECT_TRUE(as_planned) << to_string(pairs[i].from) << " -> " << to_string(pairs[i].to) << ", rank " << me;
    }
    std::vector<int64_t> want(static_cast<size_t>(ranks), 0);  // arrivals may run ahead within the pairs, not over all
    for (const Redistribution& r : pairs)
      for (int peer = 0; peer < ranks; ++peer) want[peer] += message_bytes(r)[peer * ranks + me];
    for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(comm.transport().bytes(peer).received, want[peer]);
  });
  for (size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(to_string(pairs[i].from) + " -> " + to_string(pairs[i].to));
    expect_holds(pairs[i].to, after[i]);
  }
  return static_cast<int>(pairs.size());
}

TEST(Redistribution, AllPairsOfLayoutsOnEveryMeshMoveExactValuesAndBytes) {
  int pairs = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::vector<Layout> all = layouts({ranks});
    for (const int outer : {2, 4})
      if (ranks % outer == 0 && ranks / outer >= 2)
        for (Layout& l : layouts({outer, ranks / outer})) all.push_back(std::move(l));
    if (ranks == 6)
      for (Layout& l : layouts({3, 2})) all.push_back(std::move(l));
    pairs += check_pairs(ranks, all);
  }
  EXPECT_EQ(pairs, 9597);
}

int64_t total(const Layout& from, const Layout& to) {
  const std::vector<int64_t> bytes = message_bytes(redistribution(from, to));
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

TEST(Redistribution, BytesAreOneFlowsTable) {
  constexpr int64_t kT = 24 * 24 * 4;
  for (const int64_t n : {1, 2, 3, 4, 6, 8}) {
    const auto l = [&](AxisLayout a) { return Layout{DType::f32, {24, 24}, {n}, {std::move(a)}}; };
    EXPECT_EQ(total(l(whole()), l(split(0))), 0);
    EXPECT_EQ(total(l(whole()), l(partial())), 0);
    EXPECT_EQ(total(l(split(0)), l(split(0))), 0);
    EXPECT_EQ(total(l(split(0)), l(split(1))), (n - 1) * kT / n);
    EXPECT_EQ(total(l(split(1)), l(whole())), (n - 1) * kT);
    EXPECT_EQ(total(l(partial()), l(split(0))), (n - 1) * kT);
    EXPECT_EQ(total(l(partial()), l(whole())), 2 * (n - 1) * kT);
  }
}

// qkv of unlike heads: each rank has its heads of q, of k and of v.
TEST(Layouts, SectionsAreEachCutForThemselves) {
  const Layout l{DType::f32, {16, 3}, {4}, {split(0, {8, 4, 4})}};
  EXPECT_EQ(holding(l, 1)[0], (std::vector<Interval>{{2, 4}, {9, 10}, {13, 14}}));
  EXPECT_EQ(local_shape(holding(l, 1)), (std::vector<int64_t>{4, 3}));
  const Layout twice{DType::f32, {16}, {2, 2}, {split(0, {8, 8}), split(0, {8, 8})}};
  EXPECT_EQ(holding(twice, 1)[0], (std::vector<Interval>{{2, 4}, {10, 12}}));
  EXPECT_EQ(to_string(twice), "S(0) of 2 sections × S(0) of 2 sections on 2 × 2");
}

TEST(Layouts, WhatIsNoLayoutIsRefused) {
  const auto refused = [](const Layout& l) {
    try {
      check_layout(l);
    } catch (const std::exception&) { return true; }
    return false;
  };
  EXPECT_FALSE(refused({DType::f32, {4, 4}, {2}, {split(1)}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2}, {split(2)}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2}, {split(0, {1, 2})}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2}, {split_at(0, {0, 5, 4})}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2}, {split_at(0, {0, 4})}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2, 2}, {split(0), split_at(0, {0, 1, 4})}}));
  EXPECT_TRUE(refused({DType::f32, {4, 4}, {2, 2}, {split(0)}}));
}

}  // namespace
}  // namespace tern
