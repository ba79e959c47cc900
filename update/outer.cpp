#include "update/outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "spec/collective_bytes.h"
#include "spec/layout.h"

namespace tern {
namespace {

template <class T, class Each>
void for_each_of(std::span<T> x, Each each) {
  parallel_ranges(std::ssize(x), kParallelGrain, 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) each(i);
  });
}

std::vector<size_t> parameters_in(const OuterState& s, int fragment) {
  std::vector<size_t> own;
  for (size_t p = 0; p < s.fragment.size(); ++p)
    if (s.fragment[p] == fragment) own.push_back(p);
  return own;
}

// to = φ - w.
template <class T>
void difference(std::span<const T> common, std::span<const T> w, std::span<T> to) {
  for_each_of(to, [=](size_t i) { to[i] = common[i] - w[i]; });
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

// Part r of a codec's bytes, of one row of them for all ranks.
struct CodedParts {
  OuterCodec codec;
  int64_t elements;
  int ranks;
  Interval part(int rank) const { return part_of(elements, rank, ranks); }
  int64_t bytes(int rank) const { return coded_bytes(codec, part(rank).size()); }
  int64_t begin(int rank) const {
    int64_t at = 0;
    for (int r = 0; r < rank; ++r) at += bytes(r);
    return at;
  }
  int64_t all_bytes() const { return begin(ranks); }
  int64_t longest() const { return (elements + ranks - 1) / ranks; }
};

// The average of what ranks have, by codes: to whom sums up a part, and from there to all.
template <class T>
void average_coded(OuterStep& o, int fragment, std::span<const Tensor> vector, Comm& world) {
  OuterState& s = o.state;
  const Tensor& error = s.error[static_cast<size_t>(fragment)];
  const CodedParts parts{o.config.codec, error.count(), s.ranks};
  const std::span<T> e = error.span<T>();
  const auto part_in = [&](int r) {
    const Interval p = parts.part(r);
    return e.subspan(static_cast<size_t>(p.begin), static_cast<size_t>(p.size()));
  };
  Arena& arena = o.staging;
  const Tensor codes = arena.allocate(DType::u8, {parts.all_bytes()}, MemoryClass::workspace);
  const Tensor received =
      arena.allocate(DType::u8, {s.ranks * coded_bytes(parts.codec, parts.longest())}, MemoryClass::workspace);
  const Tensor sums = arena.allocate(error.dtype(), {2 * parts.longest()}, MemoryClass::workspace);
  const auto codes_of = [&](int r) { return codes.rows_view(parts.begin(r), parts.begin(r) + parts.bytes(r)); };
  end_to_end(vector, [&](int64_t at, const Tensor& t) {
    const std::span<T> to = e.subspan(static_cast<size_t>(at), static_cast<size_t>(t.count())), x = t.span<T>();
    for_each_of(to, [=](size_t i) { to[i] += x[i]; });
  });
  std::vector<Tensor> send, receive;
  const int64_t mine = parts.bytes(s.rank);
  for (int r = 0; r < s.ranks; ++r) {
    encode<T>(parts.codec, part_in(r), codes_of(r).template span<uint8_t>());
    send.push_back(codes_of(r)), receive.push_back(received.rows_view(r * mine, (r + 1) * mine));
  }
  world.all_to_all(send, receive);

  const auto length = static_cast<size_t>(parts.part(s.rank).size());
  const std::span<T> sum = sums.span<T>().first(length),
                     one = sums.span<T>().last(static_cast<size_t>(parts.longest()));
  std::ranges::fill(sum, T{0});
  for (const Tensor& from : receive) {
    const std::span<T> theirs = one.first(length);
    decode<T>(parts.codec, from.span<uint8_t>(), theirs);
    for_each_of(sum, [=](size_t i) { sum[i] += theirs[i]; });
  }
  const Tensor& kept = s.sum_error[static_cast<size_t>(fragment)];
  const std::span<T> left = kept.empty() ? std::span<T>() : kept.span<T>();
  const T share = T{1} / static_cast<T>(s.ranks);
  for_each_of(left, [=](size_t i) { left[i] += share * sum[i]; });
  encode<T>(parts.codec, left, codes_of(s.rank).template span<uint8_t>());
  RankParts gathered;
  for (int r = 0; r < s.ranks; ++r) gathered.push_back({codes_of(r)});
  world.all_gather(gathered);

  const RankParts whole = even_parts(vector, s.ranks);
  for (int r = 0; r < s.ranks; ++r) {
    const std::span<T> flat = one.first(static_cast<size_t>(parts.part(r).size()));
    decode<T>(parts.codec, codes_of(r).template span<uint8_t>(), flat);
    end_to_end(whole[static_cast<size_t>(r)], [&](int64_t at, const Tensor& t) {
      std::ranges::copy(flat.subspan(static_cast<size_t>(at), static_cast<size_t>(t.count())), t.span<T>().begin());
    });
  }
}

template <class T>
void average(OuterStep& o, int fragment, std::span<const Tensor> vector, Comm& world) {
  if (o.config.codec != OuterCodec::none) return average_coded<T>(o, fragment, vector, world);
  world.all_reduce_sum(vector);
  const T share = T{1} / static_cast<T>(o.state.ranks);
  for (const Tensor& t : vector) {
    const std::span<T> x = t.span<T>();
    for_each_of(x, [=](size_t i) { x[i] *= share; });
  }
}

template <class T>
void send(OuterStep& o, int fragment, std::span<const Tensor> masters, std::span<const Tensor> to, Comm& world) {
  std::vector<Tensor> vector;
  for (const size_t p : parameters_in(o.state, fragment)) {
    difference<T>(o.state.common[p].span<T>(), masters[p].span<T>(), to[p].span<T>());
    vector.push_back(to[p]);
  }
  const int64_t before = world.bytes().sent;
  average<T>(o, fragment, vector, world);
  o.sent_bytes += world.bytes().sent - before;
}

// The outer rule, then what a replica keeps of its own; the average becomes zero.
template <class T>
void count(const OuterStep& o, int fragment, std::span<const Tensor> masters, std::span<const Tensor> averaged) {
  const auto rate = static_cast<T>(o.config.rate), keep = static_cast<T>(o.config.momentum),
             own = static_cast<T>(o.config.mix);
  for (const size_t p : parameters_in(o.state, fragment)) {
    const std::span<T> common = o.state.common[p].span<T>(), w = masters[p].span<T>(), d = averaged[p].span<T>();
    const std::span<T> u = o.state.momentum.empty() ? std::span<T>() : o.state.momentum[p].span<T>();
    for_each_of(w, [=](size_t i) {
      T step = d[i];
      if (!u.empty()) {
        u[i] = keep * u[i] + d[i];
        step += keep * u[i];
      }
      common[i] -= rate * step;
      w[i] = own == 0 ? common[i] : (1 - own) * common[i] + own * w[i];
      d[i] = 0;
    });
  }
}

template <class T>
bool step_of(OuterStep& o, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
             Comm& world) {
  const std::span<const Tensor> averages = o.config.delay > 0 ? std::span<const Tensor>(o.state.pending) : scratch;
  bool changed = false;
  for (int f = 0; f < o.config.fragments; ++f) {
    if (o.config.delay > 0 && counts_at(o.config, f, step)) count<T>(o, f, masters, averages), changed = true;
    if (!sends_at(o.config, f, step)) continue;
    send<T>(o, f, masters, averages, world);
    if (o.config.delay == 0) count<T>(o, f, masters, averages), changed = true;
  }
  return changed;
}

int64_t elements_in(std::span<const Tensor> masters, std::span<const int> fragment, int f) {
  int64_t elements = 0;
  for (size_t p = 0; p < masters.size(); ++p)
    if (fragment[p] == f) elements += masters[p].count();
  return elements;
}

}  // namespace

std::string outer_fault(const OuterConfig& c, int units) {
  if (c.fragments > units)
    return fmt::format("--outer-fragments {}: the model has {} units to cut between; choose at most as many",
                       c.fragments, units);
  if (c.fragments > c.every)
    return fmt::format(
        "--outer-fragments {}: each has its turn within --outer-every {} steps; choose fewer, or more steps",
        c.fragments, c.every);
  if (c.delay >= c.every)
    return fmt::format(
        "--outer-delay {}: an average counts before its fragment is sent again, --outer-every {} steps later; "
        "choose less",
        c.delay, c.every);
  return "";
}

int fragment_of(int unit, int units, int fragments) {
  return static_cast<int>(static_cast<int64_t>(unit) * fragments / units);
}

bool sends_at(const OuterConfig& c, int fragment, int64_t step) {
  return step > 0 && (step + fragment * c.every / c.fragments) % c.every == 0;
}
bool counts_at(const OuterConfig& c, int fragment, int64_t step) { return sends_at(c, fragment, step - c.delay); }

OuterState make_outer_state(const OuterConfig& c, std::span<const Tensor> masters, std::span<const int> units,
                            int num_units, int rank, int ranks, Arena& arena) {
  OuterState s{.ranks = ranks, .rank = rank};
  const DType type = masters.front().dtype();
  const auto zeros = [&](const Shape& shape) { return arena.zeros(type, shape, MemoryClass::optimizer); };
  for (size_t p = 0; p < masters.size(); ++p) {
    const Tensor& w = masters[p];
    s.fragment.push_back(fragment_of(units[p], num_units, c.fragments));
    s.common.push_back(arena.allocate(type, w.shape(), MemoryClass::optimizer));
    std::memcpy(s.common.back().data(), w.data(), static_cast<size_t>(w.bytes()));
    if (c.momentum > 0) s.momentum.push_back(zeros(w.shape()));
    if (c.delay > 0) s.pending.push_back(zeros(w.shape()));
  }
  for (int f = 0; c.codec != OuterCodec::none && f < c.fragments; ++f) {
    const int64_t elements = elements_in(masters, s.fragment, f);
    s.error.push_back(zeros({elements}));
    const int64_t part = part_of(elements, rank, ranks).size();
    s.sum_error.push_back(part > 0 ? zeros({part}) : Tensor());
  }
  return s;
}

int64_t outer_state_bytes(const OuterConfig& c, std::span<const int64_t> fragments, int ranks, DType type) {
  const int64_t copies = 1 + (c.momentum > 0) + (c.delay > 0) + (c.codec != OuterCodec::none);
  int64_t elements = 0;
  for (const int64_t n : fragments) elements += n * (copies * ranks + (c.codec != OuterCodec::none));
  return elements * size_of(type);
}

int64_t outer_staging_bytes(const OuterConfig& c, std::span<const int64_t> fragments, int ranks, DType type) {
  int64_t most = 0;
  for (const int64_t n : fragments) {
    const CodedParts parts{c.codec, n, ranks};
    most =
        std::max(most, c.codec == OuterCodec::none ? staging_elements(parts.longest(), ranks) * size_of(type)
                                                   : parts.all_bytes() + ranks * coded_bytes(c.codec, parts.longest()) +
                                                         2 * parts.longest() * size_of(type));
  }
  return ranks * most;
}

int64_t outer_fragment_bytes(const OuterConfig& c, int64_t elements, int ranks, DType type) {
  const int64_t whole =
      c.codec == OuterCodec::none ? elements * size_of(type) : CodedParts{c.codec, elements, ranks}.all_bytes();
  return 2 * (ranks - 1) * whole;
}

bool outer_step(OuterStep& o, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
                Comm& world) {
  TERN_CHECK(
      masters.size() == o.state.common.size() && scratch.size() == masters.size() && world.size() == o.state.ranks,
      "outer step: {} masters, {} in common, {} ranks in a world of {}", masters.size(), o.state.common.size(),
      o.state.ranks, world.size());
  if (masters.front().dtype() == DType::f64) return step_of<double>(o, step, masters, scratch, world);
  return step_of<float>(o, step, masters, scratch, world);
}

}  // namespace tern
