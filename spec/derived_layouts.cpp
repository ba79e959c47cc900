#include "spec/derived_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "spec/operator_graph.h"
#include "spec/redistribution.h"

namespace tern {
namespace {

struct Cost {
  int64_t forward = 0, backward = 0, held = 0;
  int64_t sent() const { return forward + backward; }
  Cost& operator+=(const Cost& o) { return forward += o.forward, backward += o.backward, held += o.held, *this; }
  friend bool operator<(const Cost& a, const Cost& b) {
    return std::pair(a.sent(), a.held) < std::pair(b.sent(), b.held);
  }
};

// How rows may lie between two units.
const std::array<AxisLayout, 4> kBorders{whole(), split(0), split(1), partial()};
constexpr size_t kNoBorder = 0;  // before the first unit and behind the last

// The gradient of rows that lie so, as what made them takes it.
AxisLayout gradient_of(const AxisLayout& rows) { return rows.spread == AxisSpread::split ? rows : whole(); }

// What one choice of signatures makes of a unit.
struct UnitChoice {
  Cost cost;
  std::vector<ParameterLayout> parameters;
};
// For each layout of the rows behind the unit; none: not possible.
using UnitChoices = std::array<std::optional<UnitChoice>, kBorders.size()>;

// Tries all signatures of one unit's operators, with its rows coming in as `entry`.
class UnitSearch {
 public:
  UnitSearch(const OperatorGraph& g, const LayoutQuestion& q, const AxisLayout& entry, const AxisLayout* table)
      : g_(g),
        q_(q),
        table_(table),
        made_(g.tensors.size()),
        chosen_(g.operators.size()),
        uses_(g.tensors.size()),
        makers_(g.tensors.size(), -1),
        done_after_(g.operators.size()),
        turns_(g.tensors.size()) {
    for (const GraphOperator& o : g.operators) {
      std::vector<Signature>& rows = signatures_.emplace_back(signatures(g, o, q.ranks));
      const bool must = q.all_in_parts || o.kind == OperatorKind::product || o.kind == OperatorKind::attention;
      if (must) std::erase_if(rows, [](const Signature& s) { return !s.is_divided; });
    }
    if (g.entry >= 0) made_[at(g.entry)] = entry;
    for (size_t o = 0; o < g.operators.size(); ++o) {
      makers_[at(g.operators[o].output)] = static_cast<int>(o);
      for (size_t i = 0; i < g.operators[o].inputs.size(); ++i) uses_[at(g.operators[o].inputs[i])].push_back({o, i});
    }
    for (size_t t = 0; t < g.tensors.size(); ++t)
      done_after_[uses_[t].empty() ? at(makers_[t]) : uses_[t].back().reader].push_back(t);
    if (g.exit < 0) ends_ = {kBorders[kNoBorder]};
    for (size_t s = 0; g.exit >= 0 && s < signatures_[at(makers_[at(g.exit)])].size(); ++s)
      ends_.push_back(signatures_[at(makers_[at(g.exit)])][s].output);
  }
  UnitChoices run() {
    choose(0, {});
    return std::move(best_);
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }

  // The operators before `index` are chosen; `cost`: that of the tensors that no later operator takes.
  void choose(size_t index, const Cost& cost) {
    if (index == g_.operators.size()) return judge(cost);
    if (is_beaten(cost)) return;
    for (const Signature& s : signatures_[index]) {
      chosen_[index] = &s;
      made_[at(g_.operators[index].output)] = s.output;
      Cost more = cost;
      more.forward += 2 * (q_.ranks - 1) * s.summed * size_of(DType::f32);
      for (const size_t tensor : done_after_[index])
        more += g_.tensors[tensor].is_parameter ? parameter(tensor).first : rows(tensor);
      choose(index + 1, more);
    }
  }

  // Whether nothing that begins so is better, however the rows end.
  bool is_beaten(const Cost& cost) const {
    const auto beats = [&](const AxisLayout& border) {
      const std::optional<UnitChoice>& best = best_[number_of(border)];
      return best && best->cost < cost;
    };
    return std::ranges::all_of(ends_, beats);
  }

  void judge(const Cost& cost) {
    std::optional<UnitChoice>& best = best_[g_.exit >= 0 ? number_of(made_[at(g_.exit)]) : kNoBorder];
    if (best && !(cost < best->cost)) return;
    best = {cost, {}};
    for (size_t t = 0; t < g_.tensors.size(); ++t)
      if (g_.tensors[t].is_parameter) best->parameters.push_back(parameter(t).second);
  }

  static size_t number_of(const AxisLayout& border) {
    const auto i = static_cast<size_t>(std::ranges::find(kBorders, border) - kBorders.begin());
    TERN_CHECK(i < kBorders.size(), "derived layouts: rows of a unit end as {}", to_string(border));
    return i;
  }

  struct Use {
    size_t reader, input;
  };
  // A change of a tensor's layout.
  struct Turn {
    AxisLayout from, to;
    int64_t bytes;
  };

  // Rows are turned once into each layout that is taken; gradients in one layout are added up before they are turned.
  Cost rows(size_t tensor) {
    const int maker = makers_[tensor];
    if (maker < 0 && static_cast<int>(tensor) != g_.entry) return {};  // ids, which every rank has
    const AxisLayout wanted = maker < 0 ? gradient_of(made_[tensor]) : chosen_[at(maker)]->output_gradient;
    std::vector<AxisLayout> taken, gradients;
    for (const auto& [reader, input] : uses_[tensor]) {
      const AxisLayout &in = chosen_[reader]->inputs[input], &gradient = chosen_[reader]->input_gradients[input];
      if (std::ranges::find(taken, in) == taken.end()) taken.push_back(in);
      if (std::ranges::find(gradients, gradient) == gradients.end()) gradients.push_back(gradient);
    }
    Cost cost{.held = held(tensor, made_[tensor])};
    for (const AxisLayout& to : taken) cost.forward += bytes(tensor, made_[tensor], to);
    for (const AxisLayout& from : gradients) cost.backward += bytes(tensor, from, wanted);
    return cost;
  }

  std::pair<Cost, ParameterLayout> parameter(size_t tensor) {
    const auto& [reader, input] = uses_[tensor].front();  // its only one
    const AxisLayout &used = chosen_[reader]->inputs[input], &gradient = chosen_[reader]->input_gradients[input];
    const GraphTensor& t = g_.tensors[tensor];
    const OperatorKind kind = g_.operators[reader].kind;
    const bool backward_reads = kind != OperatorKind::lookup && kind != OperatorKind::bias;
    struct Kept {
      Cost cost;
      AxisLayout layout;
      // What decides: the bytes sent, whether passes use it as it is kept, the bytes held.
      std::tuple<int64_t, bool, int64_t> key(const AxisLayout& used) const {
        return {cost.sent(), layout != used, cost.held};
      }
    };
    std::optional<Kept> best;
    const auto consider = [&](const AxisLayout& kept) {
      if (t.is_matrix && q_.matrices_in_parts && kept.spread != AxisSpread::split) return;
      if (t.name == "embed.tokens" && table_ && kept != *table_) return;
      const int64_t turned = bytes(tensor, kept, used), again = backward_reads ? turned : 0;
      const Kept one{{turned, again + bytes(tensor, gradient, kept), held(tensor, kept)}, kept};
      if (!best || one.key(used) < best->key(used)) best = one;
    };
    consider(whole());
    consider(split(0, t.sections));
    if (t.shape.size() > 1) consider(split(1));
    TERN_CHECK(best, "derived layouts: {} has none", t.name);
    return {best->cost, {t.name, 0, best->layout, used}};
  }

  Layout layout(size_t tensor, const AxisLayout& axis) const {
    return {q_.dtype, g_.tensors[tensor].shape, {q_.ranks}, {axis}};
  }
  int64_t held(size_t tensor, const AxisLayout& axis) const {
    return local_count(holding(layout(tensor, axis), 0)) * size_of(q_.dtype);
  }
  int64_t bytes(size_t tensor, const AxisLayout& from, const AxisLayout& to) {
    if (from == to) return 0;
    std::vector<Turn>& known = turns_[tensor];
    const auto same = [&](const Turn& t) { return t.from == from && t.to == to; };
    if (const auto at = std::ranges::find_if(known, same); at != known.end()) return at->bytes;
    const std::vector<int64_t> messages = message_bytes(redistribution(layout(tensor, from), layout(tensor, to)));
    return known.emplace_back(Turn{from, to, std::accumulate(messages.begin(), messages.end(), int64_t{0})}).bytes;
  }

  const OperatorGraph& g_;
  const LayoutQuestion& q_;
  const AxisLayout* table_;
  std::vector<std::vector<Signature>> signatures_;
  std::vector<AxisLayout> made_;                 // of each tensor that is no parameter
  std::vector<const Signature*> chosen_;         // of each operator
  std::vector<std::vector<Use>> uses_;           // of each tensor
  std::vector<int> makers_;                      // of each tensor: the operator whose output it is, or −1
  std::vector<std::vector<size_t>> done_after_;  // of each operator: the tensors that no later one takes
  std::vector<AxisLayout> ends_;                 // how the rows behind the unit may lie
  std::vector<std::vector<Turn>> turns_;         // of each tensor: those counted so far
  UnitChoices best_;
};

// All units one after another.
class ModelSearch {
 public:
  ModelSearch(const ModelSpec& spec, const LayoutQuestion& q, const AxisLayout* table)
      : spec_(spec), q_(q), table_(table) {}

  // The cheapest way, and its cost.
  std::pair<Cost, DerivedLayouts> run() {
    struct Way {
      Cost cost;
      std::vector<size_t> borders;
    };
    std::vector<std::optional<Way>> ways(kBorders.size());
    ways[kNoBorder] = Way{};
    for (size_t unit = 0; unit < spec_.units.size(); ++unit) {
      std::vector<std::optional<Way>> next(kBorders.size());
      for (size_t from = 0; from < ways.size(); ++from)
        for (size_t to = 0; ways[from] && to < next.size(); ++to) {
          const std::optional<UnitChoice>& choice = choices(unit, from)[to];
          if (!choice) continue;
          Way way = *ways[from];
          way.cost += choice->cost;
          way.borders.push_back(to);
          if (!next[to] || way.cost < next[to]->cost) next[to] = std::move(way);
        }
      ways = std::move(next);
    }
    TERN_CHECK(ways[kNoBorder], "derived layouts: no combination of signatures for {} ranks", q_.ranks);
    const Way& best = *ways[kNoBorder];
    DerivedLayouts answer{.forward_bytes = best.cost.forward, .backward_bytes = best.cost.backward};
    for (size_t unit = 0, from = kNoBorder; unit < best.borders.size(); from = best.borders[unit++]) {
      if (unit + 1 < best.borders.size()) answer.rows.push_back(kBorders[best.borders[unit]]);
      for (ParameterLayout p : choices(unit, from)[best.borders[unit]]->parameters) {
        const std::string of_first = fmt::format("layers.{}.", spec_.units[seen_as(unit)].layer);
        if (p.name.starts_with(of_first))
          p.name = fmt::format("layers.{}.{}", spec_.units[unit].layer, p.name.substr(of_first.size()));
        p.unit = static_cast<int>(unit);
        answer.parameters.push_back(std::move(p));
      }
    }
    return {best.cost, std::move(answer)};
  }

 private:
  // The first unit that is the same but for its layer.
  size_t seen_as(size_t unit) const {
    const auto same = [&](Unit other) { return other.layer = spec_.units[unit].layer, other == spec_.units[unit]; };
    return static_cast<size_t>(std::ranges::find_if(spec_.units, same) - spec_.units.begin());
  }
  const UnitChoices& choices(size_t unit, size_t from) {
    const auto [entry, is_new] = known_.try_emplace({seen_as(unit), from});
    if (is_new) {
      const OperatorGraph graph = operator_graph(spec_, static_cast<int>(seen_as(unit)), q_.rows, q_.sequences);
      entry->second = UnitSearch(graph, q_, kBorders[from], table_).run();
    }
    return entry->second;
  }

  const ModelSpec& spec_;
  const LayoutQuestion& q_;
  const AxisLayout* table_;
  std::map<std::pair<size_t, size_t>, UnitChoices> known_;
};

}  // namespace

// Which attention neither its heads nor the sequences let so many ranks divide; "": none.
static std::string undivided(const ModelSpec& spec, const LayoutQuestion& q) {
  if (q.sequences % q.ranks == 0) return "";
  for (const Unit& unit : spec.units)
    if (const AttentionSpec* a = attention_of(unit); a && (a->heads % q.ranks || a->kv_heads % q.ranks))
      return fmt::format("layer {} has {} heads and {} key/value heads, a micro-batch has {}", unit.layer, a->heads,
                         a->kv_heads, counted(q.sequences, "sequence"));
  return "";
}

// No tensor of a unit has more columns.
static int64_t widest(const ModelSpec& spec) {
  int64_t most = std::max(spec.width, spec.vocab);
  for (const Unit& unit : spec.units) {
    if (const AttentionSpec* a = attention_of(unit)) most = std::max({most, a->qkv_rows(), a->value_rows()});
    if (const MlpSpec* m = mlp_of(unit)) most = std::max(most, 2 * m->hidden);
  }
  return most;
}

DerivedLayouts derive_layouts(const ModelSpec& spec, const LayoutQuestion& q) {
  if (q.ranks < 2) throw Error(ErrorKind::usage, "layouts are derived for at least two ranks, not {}", q.ranks);
  if (q.rows < 1 || q.sequences < 1 || q.rows % q.sequences)
    throw Error(ErrorKind::usage, "{} rows are not {} whole sequences", q.rows, q.sequences);
  if (!spec.predicts) throw Error(ErrorKind::usage, "layouts are not derived for an encoder");
  // A unit has fewer than 32 tensors, each of which is turned at most four times, by 2·ranks of its bytes.
  const double bytes = 32.0 * 4 * 2 * q.ranks * static_cast<double>(spec.units.size()) *
                       static_cast<double>(widest(spec)) * static_cast<double>(std::max(q.rows, widest(spec))) *
                       static_cast<double>(size_of(DType::f64));
  if (bytes > 0x1p62) throw Error(ErrorKind::usage, "{} rows are too many for a model of this size", q.rows);
  if (const std::string fault = undivided(spec, q); !fault.empty())
    throw Error(
        ErrorKind::usage,
        "{} ranks cannot divide the attention: {}; choose another number of ranks, or sequences that it divides "
        "(copies of key/value heads are not derived)",
        q.ranks, fault);
  if (!spec.head().tied) return ModelSearch(spec, q, nullptr).run().second;
  // Both ends of the model keep the table in one layout.
  std::optional<std::pair<Cost, DerivedLayouts>> best;
  for (const AxisLayout& table : {whole(), split(0), split(1)}) {
    if (q.matrices_in_parts && table.spread != AxisSpread::split) continue;
    auto found = ModelSearch(spec, q, &table).run();
    if (!best || found.first < best->first) best = std::move(found);
  }
  return best->second;
}

std::string to_string(const AxisLayout& axis) {
  const std::string text = to_string(Layout{.mesh = {1}, .axes = {axis}});
  return text.substr(0, text.find(" on "));
}

}  // namespace tern
