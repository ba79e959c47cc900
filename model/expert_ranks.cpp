#include "model/expert_ranks.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

// Of each expert, rows of one rank; of each rank, those experts' parts of a tensor of rows that lie one after the other in the order of `places`.
struct PartOfRows {
  int rank;
  int64_t rows;
};

RankParts parts_in_order(const Tensor& rows, const std::vector<PartOfRows>& order, int ranks) {
  RankParts parts(static_cast<size_t>(ranks));
  int64_t at = 0;
  for (const PartOfRows& p : order) {
    if (p.rows > 0) parts[static_cast<size_t>(p.rank)].push_back(rows.rows_view(at, at + p.rows));
    at += p.rows;
  }
  TERN_CHECK(at == rows.rows(), "experts: {} rows in a tensor of {}", at, rows.rows());
  return parts;
}

// By expert of the whole mixture.
RankParts own_parts(const Routing& r, const Tensor& own, int ranks) {
  const std::span<const int32_t> begin = r.begin_E.span<int32_t>();
  const size_t experts = begin.size() - 1, each = experts / static_cast<size_t>(ranks);
  std::vector<PartOfRows> order;
  for (size_t e = 0; e < experts; ++e) order.push_back({static_cast<int>(e / each), begin[e + 1] - begin[e]});
  return parts_in_order(own, order, ranks);
}

// By expert of this rank, then by the rank that sends.
RankParts parts_here(const Tensor& arrivals, const Tensor& here, int ranks) {
  const std::span<const int32_t> came = arrivals.span<int32_t>();
  const size_t each = came.size() / static_cast<size_t>(ranks);
  std::vector<PartOfRows> order;
  for (size_t i = 0; i < each; ++i)
    for (int rank = 0; rank < ranks; ++rank) order.push_back({rank, came[static_cast<size_t>(rank) * each + i]});
  return parts_in_order(here, order, ranks);
}

// Rows that this rank sends to others and gets from others.
void count_rows(const Routing& r, const Tensor& arrivals, const ExpertRanks& group) {
  const auto ranks = static_cast<size_t>(group.comm.size()), rank = static_cast<size_t>(group.comm.rank());
  const std::span<const int32_t> begin = r.begin_E.span<int32_t>(), came = arrivals.span<int32_t>();
  const size_t each = came.size() / ranks;
  const int64_t kept = begin[(rank + 1) * each] - begin[rank * each];
  const int64_t all = std::reduce(came.begin(), came.end(), int64_t{0});
  RoutedRows& routed = group.routed;
  routed.own = begin.back(), routed.left = routed.own - kept, routed.came = all - kept;
  routed.most = std::max(routed.most, static_cast<double>(all) / static_cast<double>(routed.own));
}

}  // namespace

ExpertRows expert_rows_here(const MoeSpec& u, const Routing& r, const Tensor& arrivals, const Compute& c) {
  ExpertRows rows;
  if (!c.experts) {
    const std::span<const int32_t> begin = r.begin_E.span<int32_t>();
    rows.begin.assign(begin.begin(), begin.end());
    rows.room = rows.count();
    return rows;
  }
  const auto ranks = static_cast<size_t>(c.experts->comm.size());
  const std::span<const int32_t> came = arrivals.span<int32_t>();
  const size_t each = came.size() / ranks;
  rows.first = static_cast<size_t>(c.experts->comm.rank()) * each;
  rows.begin.push_back(0);
  for (size_t i = 0; i < each; ++i) {
    int64_t of_expert = 0;
    for (size_t rank = 0; rank < ranks; ++rank) of_expert += came[rank * each + i];
    rows.begin.push_back(rows.begin.back() + of_expert);
  }
  rows.room = expert_rows(u, {.tokens = r.chosen_TK.rows(),
                              .expert = static_cast<int64_t>(ranks),
                              .capacity_factor = c.experts->capacity_factor});
  c.experts->routed.more = std::max(c.experts->routed.more, rows.count() - rows.room);
  return rows;
}

void tell_rows(const MoeSpec& u, const Routing& r, const Tensor& arrivals, const Compute& c) {
  const int ranks = c.experts->comm.size();
  const std::span<const int32_t> begin = r.begin_E.span<int32_t>();
  std::vector<int32_t> leave(static_cast<size_t>(u.experts));
  for (size_t e = 0; e < leave.size(); ++e) leave[e] = begin[e + 1] - begin[e];
  const int64_t each = u.experts / ranks;
  const Tensor own = Tensor::borrow(DType::i32, {u.experts}, leave.data());
  std::vector<Tensor> send, receive;
  for (int rank = 0; rank < ranks; ++rank) {
    send.push_back(own.rows_view(rank * each, (rank + 1) * each));
    receive.push_back(arrivals.rows_view(rank * each, (rank + 1) * each));
  }
  c.experts->comm.all_to_all(std::span<const Tensor>(send), std::span<const Tensor>(receive));
}

void rows_to_experts(const Routing& r, const Tensor& arrivals, const Tensor& own, const Tensor& here,
                     const Compute& c) {
  TERN_CHECK(c.experts, "rows_to_experts: no group");
  Comm& comm = c.experts->comm;
  count_rows(r, arrivals, *c.experts);
  comm.all_to_all(own_parts(r, own, comm.size()), parts_here(arrivals, here, comm.size()));
}

void rows_from_experts(const Routing& r, const Tensor& arrivals, const Tensor& here, const Tensor& own,
                       const Compute& c) {
  TERN_CHECK(c.experts, "rows_from_experts: no group");
  Comm& comm = c.experts->comm;
  comm.all_to_all(parts_here(arrivals, here, comm.size()), own_parts(r, own, comm.size()));
}

Tensor allocate_rows(DType dtype, const ExpertRows& rows, int64_t width, MemoryClass memory, const Compute& c) {
  const int64_t count = rows.count(), more = count - rows.room;
  if (more <= 0) return c.arena.allocate(dtype, {rows.room, width}, memory).rows_view(0, count);
  struct Counted {
    Tensor all, room, beyond;
  };
  const auto counted = std::make_shared<Counted>();
  Arena memory_alone;  // what it counts, nobody reads
  counted->all = memory_alone.allocate(dtype, {count, width}, memory);
  void* const data = counted->all.data();
  counted->room = c.arena.adopt(dtype, {rows.room, width}, data, nullptr, memory);
  counted->beyond = c.experts->routed.beyond.adopt(dtype, {more, width}, data, nullptr, memory);
  return Tensor::borrow(dtype, {count, width}, data, counted);
}

}  // namespace tern
