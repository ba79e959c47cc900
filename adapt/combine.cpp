#include "adapt/combine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "adapt/core_svd.h"
#include "adapt/opcm.h"
#include "adapt/task_arithmetic.h"
#include "base/error.h"
#include "base/rng.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/svd.h"
#include "kernels/lapack/symmetric_eigen.h"

namespace tern {
namespace {

using How = Combination::How;

struct NamedCombination {
  std::string_view name;
  Combination combination;
};
constexpr std::array<NamedCombination, 12> kCombinations{{
    {"linear", {How::factors, Arithmetic::linear}},
    {"cat", {How::cat}},
    {"svd", {How::products, Arithmetic::linear}},
    {"ties", {How::factors, Arithmetic::ties}},
    {"ties_svd", {How::products, Arithmetic::ties}},
    {"dare_linear", {How::factors, Arithmetic::dare_linear}},
    {"dare_linear_svd", {How::products, Arithmetic::dare_linear}},
    {"dare_ties", {How::factors, Arithmetic::dare_ties}},
    {"dare_ties_svd", {How::products, Arithmetic::dare_ties}},
    {"magnitude_prune", {How::factors, Arithmetic::magnitude_prune}},
    {"magnitude_prune_svd", {How::products, Arithmetic::magnitude_prune}},
    {"opcm", {How::opcm}},
}};

// A random number for each place of each adapter of a module's factor, or of its product.
Draw draw_of(uint64_t seed, const std::string& path, std::string_view part) {
  const uint64_t stream = hash_name(part, hash_name("\n", hash_name(path, hash_name("dare\n"))));
  return [=](size_t adapter, size_t at) {
    return random_uniform({seed, hash_name(std::to_string(adapter), stream)}, at);
  };
}

AdapterMatrix of_factors(const std::string& path, const std::vector<WeightedMatrix>& parts, const CombineSettings& s) {
  const AdapterMatrix& first = *parts.front().matrix;
  std::vector<std::vector<double>> a, b;
  std::vector<double> of_a, of_b;
  for (const auto& [weight, m] : parts) {
    if (m->rank != first.rank)
      throw Error(ErrorKind::usage,
                  "{}: has rank {} in one adapter and {} in another; factors of one rank are combined: choose --method "
                  "cat, svd or opcm",
                  path, first.rank, m->rank);
    const double w = weight * m->scale;
    of_a.push_back(std::copysign(std::sqrt(std::abs(w)), w)), of_b.push_back(std::sqrt(std::abs(w)));
    a.push_back(m->a), b.push_back(m->b);
  }
  const Arithmetic how = s.combination.arithmetic;
  return {first.rank,
          first.out,
          first.in,
          1,
          combined_numbers(how, std::move(a), of_a, s.density, s.sign, draw_of(s.seed, path, "A")),
          combined_numbers(how, std::move(b), of_b, s.density, s.sign, draw_of(s.seed, path, "B"))};
}

AdapterMatrix concatenated(const std::vector<WeightedMatrix>& parts) {
  const AdapterMatrix& first = *parts.front().matrix;
  AdapterMatrix whole{0, first.out, first.in, 1, {}, {}};
  for (const auto& [weight, m] : parts) {
    whole.rank += m->rank;
    for (const double x : m->a) whole.a.push_back(x * weight * m->scale);
  }
  for (int64_t row = 0; row < whole.out; ++row)
    for (const auto& [weight, m] : parts)
      whole.b.insert(whole.b.end(), m->b.begin() + row * m->rank, m->b.begin() + (row + 1) * m->rank);
  return whole;
}

// scale·b·a
std::vector<double> product_of(const AdapterMatrix& m) {
  std::vector<double> delta = product(m.b, m.a, m.out, m.rank, m.in);
  for (double& x : delta) x *= m.scale;
  return delta;
}

// b = u·s, a = vt, the first `rank` of each.
AdapterMatrix parted(const ThinSvd& svd, int64_t out, int64_t in, int64_t rank) {
  const auto all = static_cast<int64_t>(svd.s.size()), kept = std::min(rank, all);
  AdapterMatrix m{kept, out, in, 1, {svd.vt.begin(), svd.vt.begin() + kept * in}, {}};
  m.b.reserve(static_cast<size_t>(out * kept));
  for (int64_t i = 0; i < out; ++i)
    for (int64_t j = 0; j < kept; ++j)
      m.b.push_back(svd.u[static_cast<size_t>(i * all + j)] * svd.s[static_cast<size_t>(j)]);
  return m;
}

AdapterMatrix of_products(const std::string& path, const std::vector<WeightedMatrix>& parts, const CombineSettings& s,
                          int64_t rank) {
  const AdapterMatrix& first = *parts.front().matrix;
  if (s.combination.arithmetic == Arithmetic::linear)
    return parted(core_svd(concatenated(parts)), first.out, first.in, rank);
  std::vector<std::vector<double>> deltas;
  std::vector<double> weights;
  for (const auto& [weight, m] : parts) deltas.push_back(product_of(*m)), weights.push_back(weight);
  return parted(thin_svd(combined_numbers(s.combination.arithmetic, std::move(deltas), weights, s.density, s.sign,
                                          draw_of(s.seed, path, "BA")),
                         first.out, first.in),
                first.out, first.in, rank);
}

// The adapters that have each module, with their weights.
std::map<std::string, std::vector<WeightedMatrix>> by_module(const std::vector<AdapterMatrices>& adapters,
                                                             const std::vector<double>& weights) {
  std::map<std::string, std::vector<WeightedMatrix>> modules;
  for (size_t i = 0; i < adapters.size(); ++i)
    for (const auto& [path, m] : adapters[i]) {
      std::vector<WeightedMatrix>& parts = modules[path];
      parts.push_back({weights[i], &m});
      const AdapterMatrix& first = *parts.front().matrix;
      if (m.out != first.out || m.in != first.in)
        throw Error(ErrorKind::bad_file,
                    "{}: an adapter is for a matrix ({}, {}), another for ({}, {}); they are of different models", path,
                    first.out, first.in, m.out, m.in);
    }
  return modules;
}

}  // namespace

std::optional<Combination> combination_named(std::string_view name) {
  for (const NamedCombination& c : kCombinations)
    if (c.name == name) return c.combination;
  return {};
}
const std::vector<std::string_view>& combination_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const NamedCombination& c : kCombinations) list.push_back(c.name);
    return list;
  }();
  return names;
}
bool prunes(const Combination& c) {
  return (c.how == How::factors || c.how == How::products) && c.arithmetic != Arithmetic::linear;
}

Combined combine_adapters(const std::vector<AdapterMatrices>& adapters, const CombineSettings& s) {
  TERN_CHECK(!adapters.empty() && s.weights.size() == adapters.size(), "combine: {} adapters, {} weights",
             adapters.size(), s.weights.size());
  const auto modules = by_module(adapters, s.weights);
  int64_t rank = s.rank;
  if (rank == 0)
    for (const AdapterMatrices& adapter : adapters)
      for (const auto& [path, m] : adapter) rank = std::max(rank, m.rank);
  Combined combined;
  for (size_t i = 0; i < adapters.size(); ++i) {
    double squares = 0;
    for (const auto& [path, m] : adapters[i]) squares += squared_norm(m);
    combined.norms.each.push_back(std::abs(s.weights[i]) * std::sqrt(squares));
  }
  if (s.combination.how == How::opcm) {
    combined.matrices = merge_one_by_one(adapters, s.weights);
  } else {
    for (const auto& [path, parts] : modules)
      combined.matrices.emplace(path, s.combination.how == How::cat        ? concatenated(parts)
                                      : s.combination.how == How::products ? of_products(path, parts, s, rank)
                                                                           : of_factors(path, parts, s));
  }
  double squares = 0;
  for (const auto& [path, m] : combined.matrices) squares += squared_norm(m);
  combined.norms.combined = std::sqrt(squares);
  return combined;
}

}  // namespace tern
