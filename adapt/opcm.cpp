#include "adapt/opcm.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "adapt/core_svd.h"
#include "kernels/lapack/product.h"

namespace tern {
namespace {

double norm_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

// The space that all adapters of a module share: b_i = q_b·(…), a_iᵀ = q_a·(…), and each one's change within it,
// scale·b·a = q_b·core·q_aᵀ.
struct Space {
  int64_t out = 0, in = 0, height = 0, width = 0;  // height, width of the cores
  std::vector<double> q_b, q_a;                    // (out, height), (in, width)
  std::vector<std::vector<double>> cores;          // of each adapter; empty: it lacks the module
};

Space space_of(const std::string& path, const std::vector<AdapterMatrices>& adapters,
               const std::vector<double>& weights) {
  Space space;
  int64_t total = 0;
  std::vector<double> a;
  for (const AdapterMatrices& adapter : adapters)
    if (const auto m = adapter.find(path); m != adapter.end()) {
      space.out = m->second.out, space.in = m->second.in, total += m->second.rank;
      a.insert(a.end(), m->second.a.begin(), m->second.a.end());
    }
  std::vector<double> b;
  for (int64_t row = 0; row < space.out; ++row)
    for (const AdapterMatrices& adapter : adapters)
      if (const auto m = adapter.find(path); m != adapter.end()) {
        const int64_t rank = m->second.rank;
        b.insert(b.end(), m->second.b.begin() + row * rank, m->second.b.begin() + (row + 1) * rank);
      }
  ThinQr of_b = thin_qr(std::move(b), space.out, total),
         of_a = thin_qr(transposed(a, total, space.in), space.in, total);
  space.height = std::min(space.out, total), space.width = std::min(space.in, total);
  int64_t first = 0;
  for (size_t i = 0; i < adapters.size(); ++i) {
    space.cores.emplace_back();
    const auto m = adapters[i].find(path);
    if (m == adapters[i].end()) continue;
    const int64_t rank = m->second.rank;
    const auto columns = [&](const std::vector<double>& r, int64_t rows) {
      std::vector<double> part;
      for (int64_t row = 0; row < rows; ++row)
        part.insert(part.end(), r.begin() + row * total + first, r.begin() + row * total + first + rank);
      return part;
    };
    space.cores.back() = product_transposed(columns(of_b.r, space.height), columns(of_a.r, space.width), space.height,
                                            rank, space.width);
    for (double& x : space.cores.back()) x *= weights[i] * m->second.scale;
    first += rank;
  }
  space.q_b = std::move(of_b.q), space.q_a = std::move(of_a.q);
  return space;
}

// `added` without its components in the leading singular directions of `merged`, and without its diagonal among those that
// `merged` has.
std::vector<double> projected(const Space& space, const std::vector<double>& merged, const std::vector<double>& added) {
  const ThinSvd svd = thin_svd(merged, space.height, space.width);
  const auto k = static_cast<int64_t>(svd.s.size());
  double sum = 0, so_far = 0;
  for (const double s : svd.s) sum += s;
  if (sum == 0) return added;
  int64_t leading = 0;
  for (; leading < k; ++leading) {
    so_far += svd.s[static_cast<size_t>(leading)];
    if (so_far > 0.5 * sum) break;
  }
  // p = uᵀ·added·v of the directions that `merged` has; where it has none, singular vectors are arbitrary.
  const std::vector<double> left = product(transposed(svd.u, space.height, k), added, k, space.height, space.width);
  std::vector<double> p = product_transposed(left, svd.vt, k, space.width, k);
  const double least = svd.s[0] * static_cast<double>(std::max(space.height, space.width)) * 0x1p-52;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < k; ++j) {
      const bool on_diagonal = i == j && svd.s[static_cast<size_t>(i)] > least;
      if (!on_diagonal && !(i < leading && j < leading)) p[static_cast<size_t>(i * k + j)] = 0;
    }
  const std::vector<double> removed =
      product(product(svd.u, p, space.height, k, k), svd.vt, space.height, k, space.width);
  std::vector<double> rest = added;
  for (size_t i = 0; i < rest.size(); ++i) rest[i] -= removed[i];
  return rest;
}

AdapterMatrix back(const Space& space, const std::vector<double>& core) {
  const ThinSvd svd = thin_svd(core, space.height, space.width);
  const auto k = static_cast<int64_t>(svd.s.size());
  int64_t rank = 0;
  while (rank < k && svd.s[static_cast<size_t>(rank)] >
                         svd.s[0] * static_cast<double>(std::max(space.height, space.width)) * 0x1p-52)
    ++rank;
  rank = std::max<int64_t>(rank, 1);
  std::vector<double> u, vt(svd.vt.begin(), svd.vt.begin() + rank * space.width);
  for (int64_t i = 0; i < space.height; ++i)
    for (int64_t j = 0; j < rank; ++j)
      u.push_back(svd.u[static_cast<size_t>(i * k + j)] * svd.s[static_cast<size_t>(j)]);
  return {rank,
          space.out,
          space.in,
          1,
          product_transposed(vt, space.q_a, rank, space.width, space.in),
          product(space.q_b, u, space.out, space.height, rank)};
}

}  // namespace

AdapterMatrices merge_one_by_one(const std::vector<AdapterMatrices>& adapters, const std::vector<double>& weights) {
  std::set<std::string> paths;
  for (const AdapterMatrices& adapter : adapters)
    for (const auto& [path, m] : adapter) paths.insert(path);
  std::map<std::string, Space> spaces;
  std::map<std::string, std::vector<double>> merged;
  for (const std::string& path : paths) {
    const Space& space = spaces.emplace(path, space_of(path, adapters, weights)).first->second;
    merged.emplace(path, std::vector<double>(static_cast<size_t>(space.height * space.width)));
  }
  double lambda = 1, norms = 0;
  for (size_t t = 0; t < adapters.size(); ++t) {
    double own = 0, whole = 0;
    for (auto& [path, delta] : merged) {
      const Space& space = spaces.at(path);
      const std::vector<double>& added = space.cores[t];
      const std::vector<double> rest = added.empty() || t == 0 ? added : projected(space, delta, added);
      for (size_t i = 0; i < delta.size(); ++i) delta[i] = lambda * delta[i] + (rest.empty() ? 0 : rest[i]);
      own += std::pow(norm_of(added), 2), whole += std::pow(norm_of(delta), 2);
    }
    norms += std::sqrt(own), whole = std::sqrt(whole);
    const double mean = norms / static_cast<double>(t + 1);
    if (whole == 0 || mean == 0) continue;
    for (auto& [path, delta] : merged)
      for (double& x : delta) x *= mean / whole;
    lambda = whole / mean;
  }
  AdapterMatrices result;
  for (const auto& [path, delta] : merged) result.emplace(path, back(spaces.at(path), delta));
  return result;
}

}  // namespace tern
