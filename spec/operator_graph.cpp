#include "spec/operator_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

// Adds the operators of a unit one after another.
class Builder {
 public:
  Builder(OperatorGraph& graph, const Unit& unit, int64_t rows)
      : g_(graph), rows_(rows), layer_(fmt::format("layers.{}", unit.layer)) {}

  void embed(const EmbedSpec& u) {
    int x = lookup("embed.tokens", u.vocab, u.width, true);
    if (u.positions) x = apply(OperatorKind::add, {x, lookup("embed.positions", u.positions, u.width, false)}, u.width);
    if (u.token_types)
      x = apply(OperatorKind::add, {x, lookup("embed.token_types", u.token_types, u.width, false)}, u.width);
    g_.exit = norm("embed.norm", u.norm, x);
  }
  void attention(const AttentionSpec& u) {
    const int x = enter(u.width);
    const int f =
        biased(attended(u, norm(layer_ + ".attention.norm", u.norm, x)), layer_ + ".attention.out", u.out_bias);
    g_.exit = join(u.join, layer_ + ".attention.join_norm", x, f);
  }
  void mlp(const MlpSpec& u) {
    const int x = enter(u.width);
    const int f = biased(multiplied(u, norm(layer_ + ".mlp.norm", u.norm, x)), layer_ + ".mlp.down", u.bias);
    g_.exit = join(u.join, layer_ + ".mlp.join_norm", x, f);
  }
  void parallel(const ParallelSpec& u) {
    const int x = enter(u.attention.width), n = norm(layer_ + ".attention.norm", u.attention.norm, x);
    const int m = u.shared_norm ? n : norm(layer_ + ".mlp.norm", u.mlp.norm, x);
    int f = apply(OperatorKind::add, {attended(u.attention, n), multiplied(u.mlp, m)}, u.attention.width);
    f = biased(f, layer_ + ".attention.out", u.attention.out_bias);
    f = biased(f, layer_ + ".mlp.down", u.mlp.bias);
    g_.exit = apply(OperatorKind::add, {x, f}, u.attention.width);
  }
  void head(const HeadSpec& u) {
    const int n = norm("head.norm", u.norm, enter(u.width));
    const int weight = matrix(u.tied ? "embed.tokens" : "head.projection.weight", u.vocab, u.width, {});
    const int logits = apply(OperatorKind::product, {n, weight}, u.vocab);
    g_.operators.push_back({OperatorKind::loss, {logits}, add({"", {rows_}})});
  }

 private:
  int add(GraphTensor t) {
    g_.tensors.push_back(std::move(t));
    return static_cast<int>(g_.tensors.size()) - 1;
  }
  int enter(int64_t width) { return g_.entry = add({"", {rows_, width}}); }
  int matrix(std::string name, int64_t out, int64_t in, std::vector<int64_t> sections) {
    return add({std::move(name), {out, in}, std::move(sections), true, true});
  }
  int vector(std::string name, int64_t length, std::vector<int64_t> sections = {}) {
    return add({std::move(name), {length}, std::move(sections), true});
  }
  int apply(OperatorKind kind, std::vector<int> inputs, int64_t width, std::vector<int64_t> sections = {}) {
    const int output = add({"", {rows_, width}, std::move(sections)});
    g_.operators.push_back({kind, std::move(inputs), output});
    return output;
  }
  int lookup(const std::string& name, int64_t length, int64_t width, bool is_matrix) {
    const int ids = add({"", {rows_}}), table = add({name, {length, width}, {}, true, is_matrix});
    return apply(OperatorKind::lookup, {ids, table}, width);
  }
  int norm(const std::string& name, const NormSpec& n, int x) {
    if (!n.present()) return x;
    std::vector<int> inputs{x, vector(name + ".weight", n.width)};
    if (n.kind == NormKind::layer) inputs.push_back(vector(name + ".bias", n.width));
    return apply(OperatorKind::norm, std::move(inputs), n.width);
  }
  int biased(int x, const std::string& name, bool has_bias) {
    if (!has_bias) return x;
    const GraphTensor t = g_.tensors[static_cast<size_t>(x)];
    return apply(OperatorKind::bias, {x, vector(name + ".bias", t.shape[1], t.sections)}, t.shape[1], t.sections);
  }
  // y = x + f with the norm that the join has.
  int join(const JoinSpec& j, const std::string& name, int x, int f) {
    const int64_t width = g_.tensors[static_cast<size_t>(x)].shape[1];
    if (!j.of_sum) f = norm(name, j.norm, f);
    const int sum = apply(OperatorKind::add, {x, f}, width);
    return j.of_sum ? norm(name, j.norm, sum) : sum;
  }
  // From normed rows to the output's product, whose bias is left out.
  int attended(const AttentionSpec& u, int n) {
    const std::string name = layer_ + ".attention";
    const int64_t keys = u.kv_heads * u.head_dim;
    const std::vector<int64_t> stacked{u.heads * u.head_dim, keys, keys};
    int qkv = apply(OperatorKind::product, {n, matrix(name + ".qkv.weight", u.qkv_rows(), u.width, stacked)},
                    u.qkv_rows(), stacked);
    std::vector<int> inputs{biased(qkv, name + ".qkv", u.qkv_bias)};
    if (u.head_norm != HeadNormKind::none) {
      inputs.push_back(vector(name + ".query_norm.weight", u.query_norm_width()));
      inputs.push_back(vector(name + ".key_norm.weight", u.key_norm_width()));
    }
    if (u.sinks) inputs.push_back(vector(name + ".sinks", u.heads));
    const int context = apply(OperatorKind::attention, std::move(inputs), u.value_rows());
    g_.operators.back().heads = {u.heads, u.kv_heads};
    return apply(OperatorKind::product, {context, matrix(name + ".out.weight", u.width, u.value_rows(), {})}, u.width);
  }
  int multiplied(const MlpSpec& u, int n) {
    const std::string name = layer_ + ".mlp";
    const int64_t rows = (u.gated ? 2 : 1) * u.hidden;
    const std::vector<int64_t> stacked = u.gated ? std::vector<int64_t>{u.hidden, u.hidden} : std::vector<int64_t>{};
    int up = apply(OperatorKind::product, {n, matrix(name + ".up.weight", rows, u.width, stacked)}, rows, stacked);
    up = biased(up, name + ".up", u.bias);
    const int h = apply(OperatorKind::activation, {up}, u.hidden);
    return apply(OperatorKind::product, {h, matrix(name + ".down.weight", u.width, u.hidden, {})}, u.width);
  }

  OperatorGraph& g_;
  int64_t rows_;
  std::string layer_;
};

// Writes the table's rows for one operator.
class Table {
 public:
  Table(const OperatorGraph& g, const GraphOperator& o, int ranks) : g_(g), o_(o), ranks_(ranks) {
    // Every rank may do the same.
    rows_.push_back({std::vector(o.inputs.size(), whole()), whole(), whole(), std::vector(o.inputs.size(), whole())});
  }
  std::vector<Signature> take() { return std::move(rows_); }

  // Rows are shared out; what has no rows is whole on each rank, and its gradient a sum over the ranks.
  void by_rows(size_t inputs_with_rows) {
    Signature s{{}, split(0), split(0), {}, true};
    for (size_t i = 0; i < o_.inputs.size(); ++i) {
      s.inputs.push_back(i < inputs_with_rows ? split(0) : whole());
      s.input_gradients.push_back(i < inputs_with_rows ? split(0) : partial());
    }
    rows_.push_back(std::move(s));
  }
  // Columns are shared out: of rows the last dim, of a vector its only one.
  void by_columns() {
    Signature s{{}, columns(o_.output), columns(o_.output), {}, true};
    for (const int input : o_.inputs) s.inputs.push_back(columns(input));
    s.input_gradients = s.inputs;
    rows_.push_back(std::move(s));
  }
  void row(Signature s) { rows_.push_back(std::move(s)); }
  AxisLayout columns(int tensor) const {
    const GraphTensor& t = g_.tensors[static_cast<size_t>(tensor)];
    return split(t.shape.size() > 1 && !t.is_matrix ? 1 : 0, t.sections);
  }
  bool divides_heads() const {
    return std::ranges::all_of(o_.heads, [&](int64_t number) { return number % ranks_ == 0; });
  }

  void lookup() {
    const AxisLayout b = whole();
    by_rows(1);
    row({{b, split(0)}, partial(), b, {b, split(0)}, true});  // each rank looks up the tokens that it has
    row({{b, split(1)}, split(1), split(1), {b, split(1)}, true});
  }
  void product() {
    const AxisLayout b = whole(), p = partial(), out = columns(o_.inputs[1]), y = columns(o_.output),
                     in = columns(o_.inputs[0]);
    by_rows(1);
    row({{b, out}, y, y, {p, out}, true});
    row({{in, split(1)}, p, b, {in, split(1)}, true});
    row({{p, b}, p, b, {b, p}});
    row({{b, p}, p, b, {p, b}});
  }
  void attention() {
    if (g_.sequences % ranks_ == 0) by_rows(1);
    if (!divides_heads()) return;
    const AxisLayout out = split(1);
    Signature s{{columns(o_.inputs[0])}, out, out, {columns(o_.inputs[0])}, true};
    for (size_t i = 1; i < o_.inputs.size();
         ++i) {  // sinks have a number per head; norms of a head are the same for all
      const bool sinks = g_.tensors[static_cast<size_t>(o_.inputs[i])].name.ends_with(".sinks");
      s.inputs.push_back(sinks ? split(0) : whole());
      s.input_gradients.push_back(sinks ? split(0) : partial());
    }
    row(std::move(s));
  }
  void add() {
    by_rows(2);
    by_columns();
    row({{partial(), partial()}, partial(), whole(), {whole(), whole()}, true});
  }
  // By columns the ranks sum three numbers per row: the largest logit, the sum of exponentials, the target's logit.
  void loss() {
    by_rows(1);
    const AxisLayout in = columns(o_.inputs[0]);
    row({{in}, whole(), whole(), {in}, true, 3 * g_.tensors[static_cast<size_t>(o_.output)].shape[0]});
  }

 private:
  const OperatorGraph& g_;
  const GraphOperator& o_;
  int ranks_;
  std::vector<Signature> rows_;
};

}  // namespace

std::string why_no_graph(const Unit& unit) {
  if (unit.frozen || !unit.adapters.empty()) return "is frozen or has adapters";
  if (moe_of(unit)) return "has experts";
  if (std::holds_alternative<BridgeSpec>(unit.spec)) return "joins an encoder and a decoder";
  const AttentionSpec* a = attention_of(unit);
  if (!a) return "";
  if (a->latent.present()) return "has latent attention";
  if (a->cross) return "attends to another output";
  if (a->relative > 0) return "has learned relative positions";
  if (a->head_norm == HeadNormKind::row) return "norms all queries of a row together";
  return "";
}

OperatorGraph operator_graph(const ModelSpec& spec, int index, int64_t rows, int64_t sequences) {
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  if (const std::string fault = why_no_graph(unit); !fault.empty())
    throw Error(ErrorKind::usage, "layouts are not derived for this model: layer {} {}", unit.layer, fault);
  OperatorGraph graph{.sequences = sequences};
  Builder build(graph, unit, rows);
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec)) build.embed(*u);
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec)) build.attention(*u);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec)) build.mlp(*u);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec)) build.parallel(*u);
  if (const auto* u = std::get_if<HeadSpec>(&unit.spec)) build.head(*u);
  return graph;
}

std::vector<Signature> signatures(const OperatorGraph& graph, const GraphOperator& o, int ranks) {
  Table table(graph, o, ranks);
  switch (o.kind) {
    case OperatorKind::lookup:
      table.lookup();
      break;
    case OperatorKind::norm:
      table.by_rows(1);
      break;
    case OperatorKind::product:
      table.product();
      break;
    case OperatorKind::bias:
      table.by_rows(1), table.by_columns();
      break;
    case OperatorKind::attention:
      table.attention();
      break;
    case OperatorKind::activation:
      table.by_rows(1), table.by_columns();
      break;
    case OperatorKind::add:
      table.add();
      break;
    case OperatorKind::loss:
      table.loss();
      break;
  }
  return table.take();
}

}  // namespace tern
