#include "spec/owner.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"

namespace tern {
namespace {

// The rank in whose run (part_of) a block lies.
int rank_of(int64_t block, int64_t blocks, int ranks) {
  return static_cast<int>((static_cast<__int128>(block + 1) * ranks - 1) / blocks);
}

}  // namespace

std::vector<OwnedInterval> deal(std::span<const ParameterForm> forms, UpdateRule rule, int ranks) {
  TERN_CHECK(ranks >= 1, "deal: {} ranks", ranks);
  std::vector<int> order(forms.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    const ParameterForm &x = forms[static_cast<size_t>(a)], &y = forms[static_cast<size_t>(b)];
    return std::pair(x.elements(), x.rows) > std::pair(y.elements(), y.rows);
  });
  int64_t blocks = 0;
  for (const ParameterForm& f : forms)
    if (f.kind != ParameterKind::vector) blocks += ceil_div(f.elements(), kUpdateBlock);
  std::vector<OwnedInterval> owned;
  int64_t before = 0;  // blocks of earlier parameters
  for (const int p : order) {
    const ParameterForm& f = forms[static_cast<size_t>(p)];
    const int64_t elements = f.elements(), own = ceil_div(elements, kUpdateBlock);
    if (elements == 0) continue;
    if (f.kind == ParameterKind::vector) {
      owned.push_back({p, ranks - 1, {0, elements}});
      continue;
    }
    if (row_of(rule).grain(f) == UpdateGrain::parameter) {
      owned.push_back({p, rank_of(before + own / 2, blocks, ranks), {0, elements}});
    } else {
      for (int64_t block = before; block < before + own;) {
        const int rank = rank_of(block, blocks, ranks);
        const int64_t end = std::min(part_of(blocks, rank, ranks).end, before + own);
        owned.push_back(
            {p, rank, {(block - before) * kUpdateBlock, std::min((end - before) * kUpdateBlock, elements)}});
        block = end;
      }
    }
    before += own;
  }
  std::ranges::stable_sort(owned, {}, &OwnedInterval::parameter);
  return owned;
}

int64_t state_bytes(const UpdateConfig& c, DType dtype, const ParameterForm& form, const Interval& part) {
  if (part == Interval{0, form.elements()}) return state_bytes(c, dtype, form);
  const auto up_to = [&](int64_t end) { return state_bytes(c, dtype, ParameterForm{form.kind, 1, end}); };
  return up_to(part.end) - up_to(part.begin);
}

WidestShare widest_share(std::span<const CountedForm> counted, bool experts, const UpdateConfig& c, DType dtype,
                         int64_t ranks) {
  if (ranks == 1) {
    WidestShare all;
    for (const CountedForm& f : counted)
      if (f.expert == experts) all += {f.count * f.form.elements(), f.count * state_bytes(c, dtype, f.form)};
    return all;
  }
  std::vector<ParameterForm> forms;
  for (const CountedForm& f : counted)
    if (f.expert == experts) forms.insert(forms.end(), static_cast<size_t>(f.count), f.form);
  const std::vector<OwnedInterval> owned = deal(forms, c.rule, static_cast<int>(ranks));
  std::map<int, WidestShare> shares;  // of each rank that has any
  for (const OwnedInterval& o : owned)
    shares[o.rank] += {o.elements.size(), state_bytes(c, dtype, forms[static_cast<size_t>(o.parameter)], o.elements)};
  WidestShare widest;
  for (const auto& [rank, own] : shares) {
    widest.elements = std::max(widest.elements, own.elements);
    widest.state_bytes = std::max(widest.state_bytes, own.state_bytes);
  }
  return widest;
}

}  // namespace tern
