#include "update/shares.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/wide_type.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "update/state.h"

namespace tern {
namespace {

const std::vector<RankInterval> kNone;

// Calls visit(first, end) for each unit's run of parameters.
template <class Visit>
void each_unit(const std::vector<ParameterInfo>& infos, Visit visit) {
  for (size_t first = 0, end; first < infos.size(); first = end) {
    for (end = first; end < infos.size() && infos[end].unit == infos[first].unit;) ++end;
    visit(first, end);
  }
}

}  // namespace

const std::vector<RankInterval>& Shares::keepers(size_t parameter) const {
  if (!in_world.empty()) return in_world[parameter];
  return owners.empty() ? kNone : owners[parameter];
}

bool Shares::any() const {
  return std::ranges::any_of(owners, [](const auto& of) { return !of.empty(); });
}

bool Shares::any_weights_apart() const { return std::ranges::find(weights_apart, true) != weights_apart.end(); }

Interval Shares::mine(size_t parameter, int64_t elements) const {
  if (!held.empty() && !held[parameter]) return {};
  if (!is_shared(parameter)) return {0, elements};
  for (const RankInterval& i : owners[parameter])
    if (i.rank == rank) return i.elements;
  return {};
}

namespace {

void check_frozen(const ModelSpec& spec, std::span<const int> zero) {
  for (size_t u = 0; u < zero.size(); ++u)
    if (zero[u] >= 3 && spec.units[u].frozen)
      throw Error(ErrorKind::usage, "unit {} is frozen, and ZeRO 3 shares out what is trained: choose --zero 0,1,2", u);
}

void check_tied_weights(const ModelSpec& spec, std::span<const int> zero) {
  if (spec.head().tied && (zero.front() >= 3) != (zero.back() >= 3))
    throw Error(ErrorKind::usage,
                "embedding and head share one table; ZeRO 3 shares it out for both or for neither, not {} and {}: "
                "choose --zero 3 for all layers, or --zero 0,1,2",
                zero.front(), zero.back());
}

}  // namespace

static constexpr std::string_view kExperts = ".experts.";

bool is_expert(const ParameterInfo& info) { return info.name.find(kExperts) != std::string::npos; }

int place_of_expert(const ModelSpec& spec, const ParameterInfo& info, int expert_ranks) {
  const MoeSpec* u = moe_of(spec.units[static_cast<size_t>(info.unit)]);
  const size_t at = info.name.find(kExperts);
  TERN_CHECK(u && at != std::string::npos, "place_of_expert: {}", info.name);
  return static_cast<int>(std::stoll(info.name.substr(at + kExperts.size())) / (u->experts / expert_ranks));
}

namespace {

// A tied table counts as its embedding's. An expert group's experts are dealt over the replicas that have them.
Shares deal_units(const ModelSpec& spec, UpdateRule rule, std::span<const int> zero, int rank, int ranks,
                  int expert_ranks = 1) {
  Shares shares{.rank = rank, .ranks = ranks};
  shares.expert_ranks = expert_ranks;
  if (ranks == 1 || std::ranges::all_of(zero, [](int z) { return z == 0; })) return shares;
  check_frozen(spec, zero);
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  shares.owners.resize(infos.size());
  for (const int z : zero) shares.gradients_apart.push_back(z >= 2), shares.weights_apart.push_back(z >= 3);
  each_unit(infos, [&](size_t first, size_t end) {
    if (zero[static_cast<size_t>(infos[first].unit)] == 0) return;
    for (int part = -1; part < expert_ranks; ++part) {  // what is dense, then the experts of each place
      const auto is_in_part = [&](const ParameterInfo& info) {
        return is_expert(info) ? part >= 0 && place_of_expert(spec, info, expert_ranks) == part : part < 0;
      };
      std::vector<size_t> places;
      std::vector<ParameterForm> forms;
      for (size_t p = first; p < end; ++p)
        if (is_in_part(infos[p])) places.push_back(p), forms.push_back(form_of(spec, infos[p]));
      const int each = part < 0 ? 1 : expert_ranks, begin = std::max(part, 0);
      for (const OwnedInterval& o : deal(forms, rule, ranks / each))
        shares.owners[places[static_cast<size_t>(o.parameter)]].push_back({begin + o.rank * each, o.elements});
    }
  });
  return shares;
}

}  // namespace

Shares make_shares(const ModelSpec& spec, UpdateRule rule, std::span<const int> zero, int rank, int ranks) {
  if (ranks > 1) check_tied_weights(spec, zero);
  return deal_units(spec, rule, zero, rank, ranks);
}

Shares make_mesh_shares(const ModelSpec& spec, UpdateRule rule, std::span<const int> zero, std::span<const int> home,
                        const MeshPlace& at) {
  const bool apart = home.front() != home.back(), has_copy = spec.head().tied && apart && home.back() == at.device;
  if (!apart && at.replicas > 1) check_tied_weights(spec, zero);
  if (spec.head().tied && apart && at.replicas > 1 && (zero.front() >= 2) != (zero.back() >= 2))
    throw Error(
        ErrorKind::usage,
        "embedding and head share one table; ZeRO 2 and 3 share its gradient out for both or for neither, not {} "
        "and {}: choose --zero 2 or 3 for all layers, or --zero 0,1",
        zero.front(), zero.back());
  const Shares of_homes = deal_units(spec, rule, zero, at.replica, at.replicas, at.expert_ranks);
  Shares shares = of_homes;
  if (has_copy) {  // the table is shared out here as the head is
    std::vector<int> as_head(zero.begin(), zero.end());
    as_head.front() = as_head.back();
    shares = deal_units(spec, rule, as_head, at.replica, at.replicas, at.expert_ranks);
  }
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  for (size_t p = 0; p < infos.size(); ++p) {
    const int device = home[static_cast<size_t>(infos[p].unit)];
    const auto in_world = [&](int replica) {
      return (device * at.replicas + replica) * at.tensor_ranks + at.tensor_place;
    };
    const int expert = is_expert(infos[p]) ? place_of_expert(spec, infos[p], at.expert_ranks) : -1;
    std::vector<RankInterval>& keepers = shares.in_world.emplace_back();
    if (of_homes.is_shared(p))
      for (const RankInterval& o : of_homes.owners[p]) keepers.push_back({in_world(o.rank), o.elements});
    else
      keepers.push_back({in_world(std::max(expert, 0)), {0, infos[p].shape.count()}});
    const bool has_expert = expert < 0 || expert == at.replica % at.expert_ranks;
    // The first parameter is the embedding's table.
    shares.held.push_back((device == at.device && has_expert) || (has_copy && p == 0));
  }
  return shares;
}

namespace {

// By unit: whether this rank has only some of its experts.
std::vector<bool> units_with_some_experts(const ModelSpec& spec, const Shares& shares) {
  std::vector<bool> some(spec.units.size());
  for (size_t u = 0; u < some.size(); ++u) some[u] = shares.expert_ranks > 1 && moe_of(spec.units[u]);
  return some;
}
void add_units(const std::vector<bool>& from, std::vector<bool>& to) {
  for (size_t u = 0; u < from.size(); ++u) to[u] = to[u] || from[u];
}

}  // namespace

ModelWeights allocate_own_weights(const ModelSpec& spec, DType dtype, Arena& arena, const Shares& shares,
                                  const std::vector<bool>& elsewhere) {
  std::vector<bool> by_parameter = units_with_some_experts(spec, shares);
  add_units(shares.weights_apart, by_parameter);
  std::vector<bool> without = by_parameter;
  add_units(elsewhere, without);
  ModelWeights weights = allocate_weights(spec, dtype, MemoryClass::weights, arena, without);
  size_t place = 0;
  for_each_trained(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    const size_t p = place++;
    const bool apart = !shares.weights_apart.empty() && shares.weights_apart[static_cast<size_t>(info.unit)];
    const bool held = shares.held.empty() || shares.held[p];
    const Interval mine = apart || !held ? shares.mine(p, info.shape.count()) : Interval{0, info.shape.count()};
    if (!by_parameter[static_cast<size_t>(info.unit)] || mine.size() == 0) return;
    t = arena.allocate(dtype, mine.size() == info.shape.count() ? info.shape : Shape{mine.size()},
                       MemoryClass::weights);
  });
  share_norms(spec, weights);
  return weights;
}

ModelWeights allocate_own_gradients(const ModelSpec& spec, DType dtype, Arena& arena, const Shares& shares,
                                    const std::vector<bool>& without, const std::vector<bool>& elsewhere) {
  const std::vector<bool> some = units_with_some_experts(spec, shares);
  std::vector<bool> fewer = without;
  fewer.resize(spec.units.size());
  add_units(some, fewer);
  ModelWeights gradients = allocate_gradients(spec, dtype, arena, fewer, elsewhere);
  const bool alone = shares.ranks == shares.expert_ranks;  // nobody else has this rank's experts
  size_t place = 0;
  for_each_trained(spec, gradients, [&](const ParameterInfo& info, Tensor& t) {
    const size_t p = place++;
    const auto unit = static_cast<size_t>(info.unit);
    if (!some[unit] || !shares.held[p]) return;
    const bool apart = !without.empty() && without[unit];
    if (!apart || (alone && is_expert(info))) t = arena.zeros(wide_type(dtype), info.shape, MemoryClass::gradients);
  });
  return gradients;
}

Tensor own_part(const Shares& shares, size_t parameter, int64_t elements, const Tensor& t) {
  const Interval mine = shares.mine(parameter, elements);
  if (t.empty() || t.count() == mine.size()) return t;
  return t.reshaped({t.count()}).rows_view(mine.begin, mine.end);
}

RankParts parts_of(const Shares& shares, std::span<const size_t> parameters, std::span<const Tensor> tensors) {
  RankParts parts(static_cast<size_t>(shares.ranks));
  for (size_t i = 0; i < parameters.size(); ++i)
    for (const RankInterval& o : shares.owners[parameters[i]])
      parts[static_cast<size_t>(o.rank)].push_back(
          tensors[i].reshaped({tensors[i].count()}).rows_view(o.elements.begin, o.elements.end));
  return parts;
}

}  // namespace tern
