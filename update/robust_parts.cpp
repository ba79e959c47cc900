#include "update/robust_parts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "spec/sum_order.h"
#include "spec/update_rule.h"

namespace tern {
namespace {

template <class T>
class PartAggregation {
 public:
  PartAggregation(const RobustPart& part, std::span<const std::span<T>> rows, const AddOverRanks& add)
      : part_(part), rows_(rows), add_(add), length_(static_cast<int64_t>(rows[0].size())) {}

  void run(std::span<T> centre) {
    const RobustConfig& c = part_.config;
    if (c.mixing == Mixing::buckets)
      means_ = deal_buckets(workers(), kBucketSize, c.seed, static_cast<uint64_t>(part_.step));
    else if (c.mixing == Mixing::nearest)
      means_ = nearest_neighbours(distances(), c.byzantine);
    switch (c.aggregator) {
      case Aggregator::mean:
        return sum_in_tree();
      case Aggregator::krum: {
        const auto chosen = static_cast<size_t>(krum_choice(distances(), c.byzantine));
        return each_block([&](int64_t, Vectors<T> x) { return std::vector<T>(x[chosen].begin(), x[chosen].end()); });
      }
      case Aggregator::median:
        return each_block([](int64_t, const Vectors<T>& x) { return coordinate_median(x); });
      case Aggregator::trimmed_mean:
        return each_block([&](int64_t, const Vectors<T>& x) { return trimmed_mean(x, c.byzantine); });
      case Aggregator::geometric_median:
        return geometric();
      case Aggregator::centered_clipping:
        return clipped(centre);
    }
  }

 private:
  int workers() const { return static_cast<int>(rows_.size()); }
  std::span<double> point(int64_t begin, int64_t end) const {
    return part_.point.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  // visit(begin, end, block): of the part's elements, in blocks, by several threads.
  template <class Visit>
  void blocks(Visit visit) const {
    const int64_t count = (length_ + kUpdateBlock - 1) / kUpdateBlock;
    parallel_ranges(count, 1, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) visit(b * kUpdateBlock, std::min(length_, (b + 1) * kUpdateBlock), b);
    });
  }

  // The vectors that are aggregated, in a block: the workers', or means of some of them, which `kept` holds.
  Vectors<T> vectors(int64_t begin, int64_t end, std::vector<std::vector<T>>& kept) const {
    Vectors<T> own;
    for (const std::span<T> row : rows_)
      own.push_back(row.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    if (means_.empty()) return own;
    kept.clear();
    for (const std::vector<int>& some : means_) {
      Vectors<T> of;
      for (const int w : some) of.push_back(own[static_cast<size_t>(w)]);
      kept.push_back(mean_of(of));
    }
    return views_of(kept);
  }

  // The first row becomes of(begin, vectors), block by block.
  template <class Of>
  void each_block(Of of) const {
    blocks([&](int64_t begin, int64_t end, int64_t) {
      std::vector<std::vector<T>> kept;
      const std::vector<T> result = of(begin, vectors(begin, end, kept));
      std::copy(result.begin(), result.end(), rows_[0].begin() + begin);
    });
  }

  // of(begin, vectors, out): `count` numbers of each block, summed over blocks and ranks.
  template <class Of>
  std::vector<double> summed(size_t count, Of of) const {
    const auto num_blocks = static_cast<size_t>((length_ + kUpdateBlock - 1) / kUpdateBlock);
    std::vector<double> each(num_blocks * count), sum(count);
    blocks([&](int64_t begin, int64_t end, int64_t block) {
      std::vector<std::vector<T>> kept;
      of(begin, vectors(begin, end, kept), std::span(each).subspan(static_cast<size_t>(block) * count, count));
    });
    for (size_t b = 0; b < num_blocks; ++b)
      for (size_t k = 0; k < count; ++k) sum[k] += each[b * count + k];
    add_(sum);
    return sum;
  }

  std::vector<double> distances() const {
    const size_t n = means_.empty() ? rows_.size() : means_.size();
    return summed(n * n, [](int64_t, const Vectors<T>& x, std::span<double> out) {
      std::ranges::copy(squared_distances(x), out.begin());
    });
  }

  // ‖x_k - point‖ of each vector.
  std::vector<double> lengths() const {
    const size_t n = means_.empty() ? rows_.size() : means_.size();
    std::vector<double> squares = summed(n, [&](int64_t begin, const Vectors<T>& x, std::span<double> out) {
      for (size_t k = 0; k < n; ++k) {
        double sum = 0;
        const std::span<double> v = point(begin, begin + std::ssize(x[k]));
        for (size_t i = 0; i < v.size(); ++i)
          sum += (static_cast<double>(x[k][i]) - v[i]) * (static_cast<double>(x[k][i]) - v[i]);
        out[k] = std::isnan(sum) ? INFINITY : sum;
      }
    });
    for (double& s : squares) s = std::sqrt(s);
    return squares;
  }

  // point += Σ weights_k (x_k - point); a weight of 0 takes no part, whatever is in x_k.
  void move(const std::vector<double>& weights) const {
    blocks([&](int64_t begin, int64_t end, int64_t) {
      std::vector<std::vector<T>> kept;
      const Vectors<T> x = vectors(begin, end, kept);
      const std::span<double> v = point(begin, end);
      for (size_t i = 0; i < v.size(); ++i) {
        double moved = 0;
        for (size_t k = 0; k < weights.size(); ++k)
          if (weights[k] != 0) moved += weights[k] * (static_cast<double>(x[k][i]) - v[i]);
        v[i] += moved;
      }
    });
  }
  void take_point() const {
    std::transform(part_.point.begin(), part_.point.begin() + length_, rows_[0].begin(),
                   [](double v) { return static_cast<T>(v); });
  }

  void geometric() const {
    blocks([&](int64_t begin, int64_t end, int64_t) {
      std::vector<std::vector<T>> kept;
      std::ranges::copy(coordinate_median(vectors(begin, end, kept)), point(begin, end).begin());
    });
    for (int step = 0; step < kMedianSteps; ++step) {
      std::vector<double> weights = lengths();
      double sum = 0;
      for (double& w : weights) sum += w = 1 / std::max(w, GeometricMedian{}.smooth * part_.unit);
      for (double& w : weights) w /= sum;
      move(weights);
    }
    take_point();
  }

  void clipped(std::span<T> centre) const {
    TERN_CHECK(std::ssize(centre) == length_, "aggregate_part: a centre of {}, a part of {}", centre.size(), length_);
    std::ranges::copy(centre, part_.point.begin());
    const double radius = part_.config.clip_radius * part_.unit;
    for (int step = 0; step < kClippingSteps; ++step) {
      std::vector<double> weights = lengths();
      const auto n = static_cast<double>(weights.size());
      for (double& w : weights) w = std::isfinite(w) ? (w > radius ? radius / w : 1) / n : 0;
      move(weights);
    }
    take_point();
    std::copy_n(rows_[0].begin(), length_, centre.begin());
  }

  void sum_in_tree() const {
    const std::vector<TreePair> pairs = tree_pairs(workers());
    parallel_ranges(length_, 4096, 1, [&](int64_t begin, int64_t end) {
      for (const TreePair& p : pairs)
        for (int64_t i = begin; i < end; ++i) {
          T& left = rows_[static_cast<size_t>(p.left)][static_cast<size_t>(i)];
          left = left + rows_[static_cast<size_t>(p.right)][static_cast<size_t>(i)];
        }
    });
  }

  const RobustPart& part_;
  std::span<const std::span<T>> rows_;
  const AddOverRanks& add_;
  int64_t length_;
  std::vector<std::vector<int>> means_{};  // who is in the mean that is aggregated; empty: the workers' own
};

}  // namespace

template <class T>
void aggregate_part(const RobustPart& part, std::span<const std::span<T>> rows, std::span<T> centre,
                    const AddOverRanks& add) {
  TERN_CHECK(!rows.empty(), "aggregate_part: no workers");
  PartAggregation<T>(part, rows, add).run(centre);
}

template void aggregate_part(const RobustPart&, std::span<const std::span<float>>, std::span<float>,
                             const AddOverRanks&);
template void aggregate_part(const RobustPart&, std::span<const std::span<double>>, std::span<double>,
                             const AddOverRanks&);

}  // namespace tern
