#include "train/mesh_fit.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/wide_type.h"
#include "exec/stage_messages.h"
#include "model/linear.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"
#include "plan/layers.h"
#include "spec/collective_bytes.h"
#include "spec/unit_cost.h"
#include "train/rank_place.h"
#include "train/settings_ranks.h"
#include "train/train_state.h"
#include "update/state.h"

namespace tern {
namespace {

// What the ranks of a step have in common.
struct MeshSizes {
  const ModelSpec &spec, part;
  const TrainSettings& s;
  const Program& all;
  std::vector<ParameterInfo> trained = trained_parameters(part), every = parameters(part);
  int64_t size = size_of(s.dtype), wide = size_of(wide_type(s.dtype));
};

bool is_apart(const std::vector<bool>& units, int unit) { return !units.empty() && units[static_cast<size_t>(unit)]; }

struct OneRank {
  const MeshSizes& of;
  RankPlace place;
  Shares shares = shares_of(of.spec, of.s, place);

  bool has(int unit) const { return place.home[static_cast<size_t>(unit)] == place.device; }
  bool in_stages() const { return place.in_stages(); }
  // A tied table beside the head, of a model in stages.
  bool has_copy() const {
    return in_stages() && of.spec.head().tied && place.has_last() && place.home.front() != place.home.back();
  }
  bool holds(const ParameterInfo& info, bool table) const { return has(info.unit) || (table && has_copy()); }
  int64_t elements_of(size_t p) const { return of.trained[p].shape.count(); }
  int64_t mine(size_t p) const { return shares.mine(p, elements_of(p)).size(); }
  bool is_frozen(int unit) const { return of.spec.units[static_cast<size_t>(unit)].frozen; }

  int64_t weights() const {
    int64_t elements = 0;
    for (const ParameterInfo& info : of.every)  // the first is the embedding's table
      if (is_frozen(info.unit) && holds(info, &info == of.every.data())) elements += info.shape.count();
    for (size_t p = 0; p < of.trained.size(); ++p)
      if (shares.held[p]) elements += is_apart(shares.weights_apart, of.trained[p].unit) ? mine(p) : elements_of(p);
    return elements * of.size + num_fixed_numbers(of.spec) * of.wide;
  }
  int64_t gradients() const {
    int64_t elements = 0;
    for (size_t p = 0; p < of.trained.size(); ++p)
      if (shares.held[p]) elements += is_apart(shares.gradients_apart, of.trained[p].unit) ? mine(p) : elements_of(p);
    if (!has_copy() && has(static_cast<int>(of.spec.units.size()) - 1))
      elements += own_table_gradient(of.part.units.back(), {});
    return elements * of.wide;
  }
  int64_t optimizer() const {
    int64_t bytes = 0;
    for (size_t p = 0; p < of.trained.size(); ++p)
      if (shares.held[p])
        bytes +=
            state_bytes(of.s.optimizer, of.s.dtype, form_of(of.part, of.trained[p]), shares.mine(p, elements_of(p)));
    return bytes;
  }
  // Beside weights and state, while they are made: a whole unit, and of a part that is shared out the part.
  int64_t beside() const {
    if (!begins_by_units(of.spec, shares, place.elsewhere, place.tensor))
      return of.s.dtype == DType::bf16 ? weights() / of.size * of.wide : 0;
    const bool masters = has_own_masters(of.s.optimizer, of.s.dtype);
    int64_t most = 0;
    for (size_t u = 0; u < of.spec.units.size(); ++u) {
      int64_t cut = 0;
      for (size_t p = 0; of.s.tensor > 1 && p < of.trained.size(); ++p) {
        const bool in_part = masters || is_apart(shares.weights_apart, of.trained[p].unit);
        if (of.trained[p].unit != static_cast<int>(u) || !shares.held[p] || mine(p) == 0) continue;
        if (in_part && mine(p) < elements_of(p)) cut = std::max(cut, elements_of(p));
      }
      const UnitCost cost = unit_cost(of.spec.units[u], {.dtype = of.s.dtype});
      most = std::max(most, cost.parameters + own_table_gradient(of.spec.units[u], {}) + cut);
    }
    return most * of.wide + num_fixed_numbers(of.spec) * of.wide;
  }

  // The longest part that a rank sums up, over its replicas, of a layer's dense gradients, or over those with the same experts, of its experts'.
  int64_t longest_sum(bool experts) const {
    const int ranks = experts ? place.replicas / place.experts.ranks : place.replicas;
    int64_t longest = 0;
    for (const Layer& layer : layers_of(of.spec)) {
      int64_t whole = 0;
      std::vector<int64_t> kept(static_cast<size_t>(place.replicas));
      for (size_t p = 0; p < of.trained.size(); ++p) {
        const int unit = of.trained[p].unit;
        const bool copied = p == 0 && has_copy() && layer.first + layer.count == std::ssize(of.spec.units);
        if (!copied && (!has(unit) || unit < layer.first || unit >= layer.first + layer.count)) continue;
        if (is_expert(of.trained[p]) != experts || !shares.held[p]) continue;
        if (!shares.is_shared(p)) whole += elements_of(p);
        if (shares.is_shared(p))
          for (const RankInterval& o : shares.owners[p]) kept[static_cast<size_t>(o.rank)] += o.elements.size();
      }
      longest = std::max({longest, (whole + ranks - 1) / ranks, *std::ranges::max_element(kept)});
    }
    return longest;
  }
  // Elements that a sum over its tensor group, or over those with the same key/value heads, takes at most.
  AlikeParameters alike() const {
    AlikeParameters most;
    for (const Layer& layer : layers_of(of.spec)) {
      if (!has(layer.first)) continue;
      AlikeParameters own;
      for (int u = layer.first; u < layer.first + layer.count; ++u) {
        const AlikeParameters n = alike_parameters(of.spec.units[static_cast<size_t>(u)], of.s.tensor);
        own.all += n.all, own.keys += n.keys;
      }
      most = {std::max(most.all, own.all), std::max(most.keys, own.keys)};
    }
    return most;
  }
  // The most rows that a sum over the tensor group gives a rank at once, of its `rows`: half of them where all sums pass beside products.
  int64_t summed_rows(int64_t rows) const {
    const bool in_halves = of.s.tensor_overlap && !place.has_first() && !place.has_last() &&
                           multiplies_rows_alone(of.s.multiply, of.s.dtype, ProductKind::forward) &&
                           multiplies_rows_alone(of.s.multiply, of.s.dtype, ProductKind::input_gradient);
    return in_halves ? ceil_div(rows, 2) : rows;
  }
  int64_t messages() const {
    const auto staged = [&](int64_t elements, int ranks) {
      return staging_elements((elements + ranks - 1) / ranks, ranks) * of.wide;
    };
    int64_t bytes = in_stages() ? stage_message_bytes(of.all, place.device) : 0;
    const int64_t dense = longest_sum(false), experts = longest_sum(true);
    const int with_same = place.replicas / place.experts.ranks;
    const bool in_one = place.experts.ranks == 1;  // one group of ranks takes both sums
    if (place.replicas > 1)
      bytes += staging_elements(in_one ? std::max(dense, experts) : dense, place.replicas) * of.wide;
    if (!in_one && with_same > 1) bytes += staging_elements(experts, with_same) * of.wide;
    if (in_stages() && of.spec.head().tied && place.home.front() != place.home.back() &&
        (place.has_first() || place.has_last()))
      bytes += staged(is_apart(shares.gradients_apart, 0) ? mine(0) : elements_of(0), 2);
    if (of.s.tensor == 1) return bytes;
    const int64_t rows = of.s.micro_batch * of.s.seq / of.s.context_ranks / of.s.tensor,
                  heads = first_attention(of.spec).kv_heads;
    const auto same_keys = static_cast<int>(heads < of.s.tensor ? of.s.tensor / heads : 1);
    const AlikeParameters n = alike();
    bytes += std::max(staging_elements(summed_rows(rows) * of.spec.width, of.s.tensor) * of.size,
                      staged(n.all, of.s.tensor));
    return same_keys > 1 ? bytes + staged(n.keys, same_keys) : bytes;
  }
};

}  // namespace

bool is_whole_for_a_while(const TrainSettings& s) {
  return s.tensor > 1 || s.expert_ranks > 1 || (deepest_zero(s) >= 3 && num_sharers(s) > 1);
}

bool keeps_apart(const TrainSettings& s) {
  if (s.ranks == 1) return false;
  const bool shares = deepest_zero(s) >= 1 && num_sharers(s) > 1;
  return shares || num_stage_devices(s) > 1 || s.tensor > 1 || s.expert_ranks > 1 || s.robust || s.outer;
}

void predict_mesh(const ModelSpec& spec, const TrainSettings& s, const Program& all, PredictedMemory& memory) {
  const MeshSizes sizes{.spec = spec, .part = part_of_rank(spec, {.ranks = s.tensor}), .s = s, .all = all};
  memory.weights = memory.gradients = memory.optimizer = memory.beginning = memory.messages = 0;
  for (int rank = 0; rank < s.ranks; ++rank) {
    const OneRank own{sizes, rank_place(spec, s, rank)};
    const int64_t weights = own.weights(), states = own.optimizer();
    memory.weights += weights, memory.gradients += own.gradients(), memory.optimizer += states;
    memory.beginning += weights + states + own.beside();
    memory.messages += own.messages();
  }
  if (num_stage_devices(s) > 1 && !is_whole_for_a_while(s))
    memory.weights += num_parameters(spec) * size_of(s.dtype) + num_fixed_numbers(spec) * size_of(wide_type(s.dtype));
}

}  // namespace tern
