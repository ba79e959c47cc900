#include "spec/redistribution.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tern {
namespace {

int64_t count_of(const std::vector<Interval>& box) {
  int64_t count = 1;
  for (const Interval& i : box) count *= i.size();
  return count;
}

bool holds(const Holding& held, const std::vector<Interval>& box) {
  for (size_t dim = 0; dim < box.size(); ++dim)
    if (std::none_of(held[dim].begin(), held[dim].end(),
                     [&](const Interval& i) { return i.begin <= box[dim].begin && box[dim].end <= i.end; }))
      return false;
  return true;
}

// Which summand a rank holds: its place along the partial axes.
int64_t summand(const Layout& l, int rank) {
  const std::vector<int64_t> at = coordinates(l, rank);
  int64_t place = 0;
  for (size_t a = 0; a < l.axes.size(); ++a)
    if (l.axes[a].spread == AxisSpread::partial) place = place * l.mesh[a] + at[a];
  return place;
}

// Every dim cut wherever any rank's holding begins or ends, before or after: within a cell nothing changes hands in parts.
std::vector<std::vector<Interval>> cells_of(const Layout& shape, const std::vector<Holding>& all) {
  std::vector<std::vector<Interval>> cells;
  for (size_t dim = 0; dim < shape.shape.size(); ++dim) {
    std::vector<int64_t> cuts{0, shape.shape[dim]};
    for (const Holding& held : all)
      for (const Interval& i : held[dim]) cuts.push_back(i.begin), cuts.push_back(i.end);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Interval>& intervals = cells.emplace_back();
    for (size_t c = 0; c + 1 < cuts.size(); ++c) intervals.push_back({cuts[c], cuts[c + 1]});
  }
  return cells;
}

struct Mover {
  Redistribution& r;
  int num_ranks;
  std::vector<Holding> before{}, after{};
  std::vector<int64_t> summand_of{}, wanted_of{};

  void cell(const std::vector<Interval>& box) {
    std::map<int64_t, std::vector<int>> holders;  // by summand
    std::vector<int> wanting;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (holds(before[rank], box)) holders[summand_of[rank]].push_back(rank);
      if (wanted_of[rank] == 0 && holds(after[rank], box)) wanting.push_back(rank);
    }
    for (size_t w = 0; w < wanting.size(); ++w) {
      const Interval share = part_of(count_of(box), static_cast<int64_t>(w), static_cast<int64_t>(wanting.size()));
      if (holders.size() == 1)
        r.moves.push_back({nearest(holders.begin()->second, wanting[w], w), wanting[w], {box, {0, count_of(box)}}});
      else if (share.size() > 0)
        add_up(holders, wanting, w, {box, share});
    }
  }

  static int nearest(const std::vector<int>& holders, int rank, size_t place) {
    return std::ranges::count(holders, rank) > 0 ? rank : holders[place % holders.size()];
  }

  void add_up(const std::map<int64_t, std::vector<int>>& holders, const std::vector<int>& wanting, size_t w,
              const Piece& piece) {
    PieceSum sum{wanting[w], piece, {}};
    for (const auto& [place, ranks] : holders) sum.leaves.push_back(nearest(ranks, wanting[w], w));
    r.sums.push_back(std::move(sum));
    for (const int other : wanting)
      if (other != wanting[w]) r.moves.push_back({wanting[w], other, piece});
  }

  void run() {
    for (int rank = 0; rank < num_ranks; ++rank) {
      before.push_back(holding(r.from, rank)), after.push_back(holding(r.to, rank));
      summand_of.push_back(summand(r.from, rank)), wanted_of.push_back(summand(r.to, rank));
      r.starts_zero.push_back(wanted_of.back() != 0);
    }
    std::vector<Holding> all = before;
    all.insert(all.end(), after.begin(), after.end());
    const std::vector<std::vector<Interval>> cells = cells_of(r.from, all);
    std::vector<Interval> box(cells.size());
    const auto each = [&](auto&& self, size_t dim) -> void {
      if (dim == cells.size()) return cell(box);
      for (const Interval& i : cells[dim]) box[dim] = i, self(self, dim + 1);
    };
    each(each, 0);
  }
};

}  // namespace

Redistribution redistribution(const Layout& from, const Layout& to) {
  check_layout(from), check_layout(to);
  TERN_CHECK(from.shape == to.shape && from.dtype == to.dtype && from.num_ranks() == to.num_ranks(),
             "redistribution: {} and {} are of unlike tensors, or of {} and {} ranks", to_string(from), to_string(to),
             from.num_ranks(), to.num_ranks());
  Redistribution r{from, to, {}, {}, {}};
  Mover{r, from.num_ranks()}.run();
  return r;
}

std::vector<int64_t> message_bytes(const Redistribution& r) {
  const auto ranks = static_cast<size_t>(r.from.num_ranks());
  std::vector<int64_t> bytes(ranks * ranks, 0);
  const auto add = [&](int from, int to, const Piece& piece) {
    if (from != to)
      bytes[static_cast<size_t>(from) * ranks + static_cast<size_t>(to)] += piece.part.size() * size_of(r.from.dtype);
  };
  for (const PieceSum& sum : r.sums)
    for (const int leaf : sum.leaves) add(leaf, sum.rank, sum.piece);
  for (const Move& move : r.moves) add(move.from, move.to, move.piece);
  return bytes;
}

}  // namespace tern
