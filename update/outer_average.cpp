#include "update/outer_average.h"

#include <algorithm>

#include "base/error.h"
#include "comm/group.h"
#include "update/elements.h"

namespace tern {
namespace {

template <class T>
std::span<T> numbers_at(std::span<T> all, int64_t begin, int64_t count) {
  return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

template <class T>
void scale_by(std::span<const Tensor> tensors, T share) {
  for (const Tensor& t : tensors) {
    const std::span<T> x = t.span<T>();
    for_each_element(x.size(), [=](size_t i) { x[i] *= share; });
  }
}

// Tensors laid end to end: calls visit(begin, tensor) for each.
template <class Visit>
void end_to_end(std::span<const Tensor> tensors, Visit visit) {
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    visit(at, t);
    at += t.count();
  }
}

// to += x, element by element.
template <class T>
void add_to(std::span<T> to, std::span<const T> x) {
  for_each_element(to.size(), [=](size_t i) { to[i] += x[i]; });
}

// By codes: to whom sums up a part, and from there to all. Who is cut off sends codes of zero and keeps what it had left out.
template <class T>
void average_codes(OuterStep& o, const OuterVector& v, T share, bool away, Comm& world) {
  OuterState& s = o.state;
  const Tensor& error = s.error[static_cast<size_t>(v.fragment)];
  const CodedParts parts{o.config.codec, error.count(), s.ranks};
  const std::span<T> e = error.span<T>();
  Arena& arena = o.staging;
  const Tensor codes = arena.allocate(DType::u8, {parts.all_bytes()}, MemoryClass::workspace);
  const Tensor received =
      arena.allocate(DType::u8, {s.ranks * codec_bytes(parts.codec, parts.longest())}, MemoryClass::workspace);
  const Tensor sums = arena.allocate(error.dtype(), {2 * parts.longest()}, MemoryClass::workspace);
  const auto codes_of = [&](int r) { return codes.rows_view(parts.begin(r), parts.begin(r) + parts.bytes(r)); };
  if (!away)
    end_to_end(v.tensors, [&](int64_t at, const Tensor& t) { add_to<T>(numbers_at(e, at, t.count()), t.span<T>()); });
  std::vector<Tensor> send, receive;
  const int64_t mine = parts.bytes(s.rank);
  for (int r = 0; r < s.ranks; ++r) {
    const Tensor own = codes_of(r);
    const Interval part = parts.part(r);
    if (!away)
      encode<T>(parts.codec, numbers_at(e, part.begin, part.size()), own.span<uint8_t>());
    else if (!own.empty())
      own.fill_zero();
    send.push_back(own), receive.push_back(received.rows_view(r * mine, (r + 1) * mine));
  }
  world.all_to_all(send, receive);

  const auto length = static_cast<size_t>(parts.part(s.rank).size());
  const std::span<T> sum = sums.span<T>().first(length),
                     one = sums.span<T>().last(static_cast<size_t>(parts.longest()));
  std::ranges::fill(sum, T{0});
  for (const Tensor& from : receive) {
    const std::span<T> theirs = one.first(length);
    decode<T>(parts.codec, from.span<uint8_t>(), theirs);
    add_to<T>(sum, theirs);
  }
  const Tensor& kept = s.sum_error[static_cast<size_t>(v.fragment)];
  const std::span<T> left = kept.empty() ? std::span<T>() : kept.span<T>();
  for_each_element(left.size(), [=](size_t i) { left[i] += share * sum[i]; });
  encode<T>(parts.codec, left, codes_of(s.rank).template span<uint8_t>());
  RankParts gathered;
  for (int r = 0; r < s.ranks; ++r) gathered.push_back({codes_of(r)});
  world.all_gather(gathered);

  const RankParts whole = even_parts(v.tensors, s.ranks);
  for (int r = 0; r < s.ranks; ++r) {
    const std::span<T> flat = one.first(static_cast<size_t>(parts.part(r).size()));
    decode<T>(parts.codec, codes_of(r).template span<uint8_t>(), flat);
    end_to_end(whole[static_cast<size_t>(r)], [&](int64_t at, const Tensor& t) {
      std::ranges::copy(numbers_at(flat, at, t.count()), t.span<T>().begin());
    });
  }
}

// By factors: those that are new in this turn and what travels whole are summed as one vector.
template <class T>
void average_factors(OuterStep& o, const OuterVector& v, int64_t turn, T share, bool away, Comm& world) {
  OuterState& s = o.state;
  const std::span<T> errors = s.error[static_cast<size_t>(v.fragment)].span<T>();
  std::vector<Tensor> fresh;
  end_to_end(v.tensors, [&](int64_t at, const Tensor& t) {
    const size_t p = v.parameters[fresh.size()];
    const LowRankForm form = low_rank_form(t.shape(), o.config.codec_rank);
    if (form.factor_rank == 0) return fresh.push_back(t);
    const Tensor &left = s.left[p], &right = s.right[p];
    const bool even = turn % 2 == 0;
    const std::span<T> m = numbers_at(errors, at, t.count());
    if (!away) add_to<T>(m, t.span<T>());
    const RngKey key{o.config.seed, hash_name("outer factors") + p + (static_cast<uint64_t>(turn) << 32)};
    orthonormalize<T>((even ? left : right).template span<T>(), even ? form.rows : form.columns, form.factor_rank, key);
    fresh.push_back(even ? right : left);
    if (away)
      fresh.back().fill_zero();
    else if (even)
      times_left<T>(m, left.span<T>(), form, right.span<T>());
    else
      times_right<T>(m, right.span<T>(), form, left.span<T>());
  });
  world.all_reduce_sum(fresh);
  scale_by<T>(fresh, share);
  size_t next = 0;
  end_to_end(v.tensors, [&](int64_t at, const Tensor& t) {
    const size_t p = v.parameters[next++];
    const LowRankForm form = low_rank_form(t.shape(), o.config.codec_rank);
    if (form.factor_rank == 0) return;
    expand<T>(s.left[p].span<T>(), s.right[p].span<T>(), form, t.span<T>(),
              away ? std::span<T>() : numbers_at(errors, at, t.count()));
  });
}

}  // namespace

int64_t turn_of(const OuterConfig& c, int fragment, int64_t step) {
  return (step + fragment * c.every / c.fragments) / c.every - 1;
}

template <class T>
void average_all(OuterStep& o, int64_t step, const OuterVector& v, Comm& world) {
  const bool away = is_away(o.config, o.state.rank, step);
  const int present = present_at(o.config, o.state.ranks, step);
  TERN_CHECK(present > 0, "outer step {}: all ranks are cut off", step);
  const T share = T{1} / static_cast<T>(present);
  if (away)
    for (const Tensor& t : v.tensors) t.fill_zero();
  const int64_t before = world.bytes().sent;
  if (is_in_codes(o.config.codec))
    average_codes<T>(o, v, share, away, world);
  else if (o.config.codec == OuterCodec::power_sgd)
    average_factors<T>(o, v, turn_of(o.config, v.fragment, step), share, away, world);
  else
    world.all_reduce_sum(v.tensors), scale_by<T>(v.tensors, share);
  o.sent_bytes += world.bytes().sent - before;
}

template <class T>
void average_pair(OuterStep& o, int partner, const OuterVector& v, Comm& world) {
  if (partner == o.state.rank) return;
  const int64_t before = world.bytes().sent;
  {
    Comm pair(group_of(world.transport(), {std::min(partner, o.state.rank), std::max(partner, o.state.rank)}));
    pair.all_reduce_sum(v.tensors);
    o.pair_staging = std::max(o.pair_staging, pair.staging().peak_total());
  }
  scale_by<T>(v.tensors, T{0.5});
  o.sent_bytes += world.bytes().sent - before;
}

template void average_all<float>(OuterStep&, int64_t, const OuterVector&, Comm&);
template void average_all<double>(OuterStep&, int64_t, const OuterVector&, Comm&);
template void average_pair<float>(OuterStep&, int, const OuterVector&, Comm&);
template void average_pair<double>(OuterStep&, int, const OuterVector&, Comm&);

}  // namespace tern
