// The table of signatures against numbers: what ranks compute from their parts is the whole operator's output and gradients.
#include "spec/operator_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "spec/derived_layouts.h"

namespace tern {
namespace {

constexpr int64_t kHead = 2;  // elements of a head

// A tensor, or a rank's part of it; a vector has one column.
struct Matrix {
  int64_t rows = 0, columns = 1;
  std::vector<double> at;
  double& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * columns + c)]; }
  double operator()(int64_t r, int64_t c) const { return at[static_cast<size_t>(r * columns + c)]; }
};
Matrix zeros(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns), 0)};
}

struct Part {
  Matrix values;
  int64_t first_row = 0;  // of the whole tensor
};

Matrix norm_of(const Matrix& x, const Matrix& w, const Matrix* b) {
  Matrix y = x;
  for (int64_t r = 0; r < x.rows; ++r) {
    double square = 1e-3;
    for (int64_t c = 0; c < x.columns; ++c) square += x(r, c) * x(r, c);
    for (int64_t c = 0; c < x.columns; ++c) y(r, c) = x(r, c) / std::sqrt(square) * w(c, 0) + (b ? (*b)(c, 0) : 0);
  }
  return y;
}
Matrix product_of(const Matrix& x, const Matrix& w) {
  Matrix y = zeros(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t n = 0; n < w.rows; ++n)
      for (int64_t k = 0; k < x.columns; ++k) y(r, n) += x(r, k) * w(n, k);
  return y;
}
// Two key/value heads for every four query heads; sinks take their share. Rows of one sequence see each other up to themselves.
Matrix attention_of(const Matrix& qkv, const Matrix& sinks, int64_t sequence) {
  const int64_t keys = qkv.columns / kHead / 4, heads = 2 * keys;
  Matrix y = zeros(qkv.rows, heads * kHead);
  for (int64_t r = 0; r < qkv.rows; ++r)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t k = heads * kHead + h / 2 * kHead, v = k + keys * kHead;
      double total = std::exp(sinks(h, 0));
      std::vector<double> weights;
      for (int64_t s = r / sequence * sequence; s <= r; ++s) {
        double score = 0;
        for (int64_t i = 0; i < kHead; ++i) score += qkv(r, h * kHead + i) * qkv(s, k + i);
        total += weights.emplace_back(std::exp(score));
      }
      for (int64_t s = 0; s < static_cast<int64_t>(weights.size()); ++s)
        for (int64_t i = 0; i < kHead; ++i)
          y(r, h * kHead + i) += weights[static_cast<size_t>(s)] / total * qkv(r / sequence * sequence + s, v + i);
    }
  return y;
}

struct Case {
  OperatorGraph graph;
  std::vector<int64_t> ids;  // of lookup

  // The operator of the parts that a rank has.
  Matrix run(const std::vector<Part>& in) const {
    const Matrix& x = in[0].values;
    switch (graph.operators[0].kind) {
      case OperatorKind::norm:
        return norm_of(x, in[1].values, in.size() > 2 ? &in[2].values : nullptr);
      case OperatorKind::product:
        return product_of(x, in[1].values);
      case OperatorKind::attention:
        return attention_of(x, in[1].values, graph.tensors[0].shape[0] / graph.sequences);
      case OperatorKind::lookup: {
        const Part& table = in[1];
        Matrix y = zeros(x.rows, table.values.columns);
        for (int64_t r = 0; r < x.rows; ++r)
          for (int64_t c = 0; c < y.columns; ++c) {
            const int64_t row = ids[static_cast<size_t>(in[0].first_row + r)] - table.first_row;
            y(r, c) = row >= 0 && row < table.values.rows ? table.values(row, c) : 0;
          }
        return y;
      }
      case OperatorKind::activation: {  // gate and up beside each other
        Matrix y = zeros(x.rows, x.columns / 2);
        for (int64_t r = 0; r < y.rows; ++r)
          for (int64_t c = 0; c < y.columns; ++c) y(r, c) = std::tanh(x(r, c)) * x(r, y.columns + c);
        return y;
      }
      case OperatorKind::add:
      case OperatorKind::bias: {
        Matrix y = x;
        for (int64_t r = 0; r < y.rows; ++r)
          for (int64_t c = 0; c < y.columns; ++c)
            y(r, c) += graph.operators[0].kind == OperatorKind::bias ? in[1].values(c, 0) : in[1].values(r, c);
        return y;
      }
      case OperatorKind::loss:
        break;  // sums over ranks within the operator: model/tensor_parallel_test.cpp has it
    }
    return x;
  }
};

Case case_of(OperatorKind kind) {
  using enum OperatorKind;
  const int64_t rows = 8, width = 6, hidden = 8, vocab = 9, qkv = 8 * 2 * kHead;
  Case c;
  const auto graph = [&](std::vector<GraphTensor> tensors) {
    GraphOperator o{kind, {}, static_cast<int>(tensors.size()) - 1};
    for (int i = 0; i < o.output; ++i) o.inputs.push_back(i);
    if (kind == attention) o.heads = {8, 4};
    c.graph = {std::move(tensors), {o}};
  };
  const GraphTensor x{"", {rows, width}};
  if (kind == norm) graph({x, {"a.norm.weight", {width}, {}, true}, {"a.norm.bias", {width}, {}, true}, x});
  if (kind == product)
    graph({x, {"a.up.weight", {hidden + 4, width}, {8, 4}, true, true}, {"", {rows, hidden + 4}, {8, 4}}});
  if (kind == bias) graph({{"", {rows, 12}, {8, 4}}, {"a.up.bias", {12}, {8, 4}, true}, {"", {rows, 12}, {8, 4}}});
  if (kind == attention)
    graph({{"", {rows, qkv}, {8 * kHead, 4 * kHead, 4 * kHead}}, {"a.sinks", {8}, {}, true}, {"", {rows, 8 * kHead}}});
  if (kind == activation) graph({{"", {rows, 2 * hidden}, {hidden, hidden}}, {"", {rows, hidden}}});
  if (kind == add) graph({x, x, x});
  if (kind == lookup)
    graph({{"", {rows}}, {"embed.tokens", {vocab, width}, {}, true, true}, x}), c.ids = {0, 8, 3, 3, 7, 1, 4, 8};
  c.graph.sequences = 4;
  return c;
}

Matrix random_values(const GraphTensor& t, std::mt19937& random) {
  Matrix m = zeros(t.shape[0], t.shape.size() > 1 ? t.shape[1] : 1);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (double& v : m.at) v = draw(random);
  return m;
}

Holding held_by(const GraphTensor& t, const AxisLayout& axis, int rank, int ranks) {
  Holding held = holding({DType::f64, t.shape, {ranks}, {axis}}, rank);
  if (held.size() == 1) held.push_back({{0, 1}});
  return held;
}
// Calls visit(row, column of the whole, place in the part).
template <class Visit>
void each_held(const Holding& held, Visit visit) {
  size_t place = 0;
  for (const Interval& rows : held[0])
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (const Interval& columns : held[1])
        for (int64_t c = columns.begin; c < columns.end; ++c) visit(r, c, place++);
}

// A rank's part; of a sum a third of the whole for rank 0, the rest shared out among the others.
Part part_of(const GraphTensor& t, const Matrix& whole, const AxisLayout& axis, int rank, int ranks) {
  const Holding held = held_by(t, axis, rank, ranks);
  const std::vector<int64_t> shape = local_shape(held);
  Part part{zeros(shape[0], shape[1]), held[0].empty() ? 0 : held[0][0].begin};
  const double share = axis.spread != AxisSpread::partial ? 1 : rank == 0 ? 1.0 / 3 : 2.0 / 3 / (ranks - 1);
  each_held(held, [&](int64_t r, int64_t c, size_t place) { part.values.at[place] = share * whole(r, c); });
  return part;
}

// Ranks' parts together: those of a sum added up, others as each has them (all that have one must agree).
void expect_together(const GraphTensor& t, const Matrix& whole, const AxisLayout& axis,
                     const std::vector<Matrix>& parts, double bound) {
  Matrix sum = zeros(whole.rows, whole.columns);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    each_held(held_by(t, axis, static_cast<int>(rank), static_cast<int>(parts.size())),
              [&](int64_t r, int64_t c, size_t place) {
                const double value = parts[rank].at[place];
                if (axis.spread == AxisSpread::partial)
                  sum(r, c) += value;
                else
                  EXPECT_NEAR(value, whole(r, c), bound) << "rank " << rank << ", " << r << ", " << c;
              });
  for (size_t i = 0; axis.spread == AxisSpread::partial && i < sum.at.size(); ++i)
    EXPECT_NEAR(sum.at[i], whole.at[i], bound) << i;
}

double dot(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (size_t i = 0; i < a.at.size(); ++i) sum += a.at[i] * b.at[i];
  return sum;
}
// The gradient of dot(run(inputs), output_gradient), by central differences.
Matrix gradient(const Case& c, std::vector<Part> in, size_t input, const Matrix& output_gradient) {
  Matrix g = in[input].values;
  for (size_t i = 0; i < g.at.size(); ++i) {
    double& x = in[input].values.at[i];
    const double kept = x, h = 1e-5;
    x = kept + h;
    const double above = dot(c.run(in), output_gradient);
    x = kept - h;
    g.at[i] = (above - dot(c.run(in), output_gradient)) / (2 * h);
    x = kept;
  }
  return g;
}

class Signatures : public testing::TestWithParam<std::tuple<OperatorKind, int>> {};

TEST_P(Signatures, PartsMakeTheWholeForwardAndBackward) {
  const auto [kind, ranks] = GetParam();
  const Case c = case_of(kind);
  const GraphOperator& o = c.graph.operators[0];
  const GraphTensor& out = c.graph.tensors[static_cast<size_t>(o.output)];
  std::mt19937 random(7);
  std::vector<Part> all;
  for (const int i : o.inputs) all.push_back({random_values(c.graph.tensors[static_cast<size_t>(i)], random)});
  const Matrix output = c.run(all), slope = random_values(out, random);

  const std::vector<Signature> table = signatures(c.graph, o, ranks);
  EXPECT_EQ(table.size() > 1, kind != OperatorKind::attention || ranks != 3);  // of 8 and 4 heads, 4 sequences
  for (const Signature& s : table) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks, output " << to_string(s.output) << ", first input "
                                    << to_string(s.inputs[0]));
    ASSERT_EQ(s.inputs.size(), o.inputs.size());
    ASSERT_EQ(s.input_gradients.size(), o.inputs.size());
    std::vector<Matrix> outputs;
    std::vector<std::vector<Matrix>> gradients(o.inputs.size());
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Part> own;
      for (size_t i = 0; i < o.inputs.size(); ++i)
        own.push_back(
            part_of(c.graph.tensors[static_cast<size_t>(o.inputs[i])], all[i].values, s.inputs[i], rank, ranks));
      outputs.push_back(c.run(own));
      const Part back = part_of(out, slope, s.output_gradient, rank, ranks);
      ASSERT_EQ(back.values.at.size(), outputs.back().at.size());
      for (size_t i = kind == OperatorKind::lookup ? 1 : 0; i < own.size(); ++i)  // ids have no gradient
        gradients[i].push_back(gradient(c, own, i, back.values));
    }
    expect_together(out, output, s.output, outputs, 1e-12);
    for (size_t i = kind == OperatorKind::lookup ? 1 : 0; i < o.inputs.size(); ++i)
      expect_together(c.graph.tensors[static_cast<size_t>(o.inputs[i])], gradient(c, all, i, slope),
                      s.input_gradients[i], gradients[i], 1e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Signatures,
                         testing::Combine(testing::Values(OperatorKind::lookup, OperatorKind::norm,
                                                          OperatorKind::product, OperatorKind::bias,
                                                          OperatorKind::attention, OperatorKind::activation,
                                                          OperatorKind::add),
                                          testing::Values(2, 3, 4)));

}  // namespace
}  // namespace tern
