// A mixture's unit against a plain loop over tokens and their experts, and the router's choice against transformers'.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "formats/hf/fields.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/write.h"
#include "formats/small_file.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/router.h"
#include "model/check_weights.h"
#include "model/model_files.h"
#include "model/model_testing.h"

namespace tern {
namespace {

double dot(const Tensor& w, int64_t row, const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += element(w, row * static_cast<int64_t>(x.size()) + static_cast<int64_t>(i)) * x[i];
  return sum;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double row_output(const Linear& linear, int64_t row, const std::vector<double>& x) {
  return dot(dense_rows(linear), row, x) + (linear.bias.empty() ? 0 : element(linear.bias, row));
}

// down(silu(gate)·up), or what the bounds make of that, of one row.
std::vector<double> mlp_of_row(const Linear& up, const Linear& down, const std::vector<double>& x,
                               const GateBounds& bounds = {}) {
  std::vector<double> hidden, y;
  for (int64_t f = 0; f < down.in; ++f) {
    double gate = row_output(up, f, x), other = row_output(up, down.in + f, x);
    if (bounds.present()) {
      gate = std::min(gate, bounds.limit), other = std::clamp(other, -bounds.limit, bounds.limit) + 1;
      hidden.push_back(gate * sigmoid(bounds.alpha * gate) * other);
    } else {
      hidden.push_back(gate * sigmoid(gate) * other);
    }
  }
  for (int64_t d = 0; d < down.out; ++d) y.push_back(row_output(down, d, hidden));
  return y;
}

// The plain twin: one token, its experts one after the other.
std::vector<double> token_result(const MoeSpec& u, const MoeWeights& w, const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  std::vector<double> n, y = x;
  for (size_t i = 0; i < x.size(); ++i)
    n.push_back(x[i] / std::sqrt(squares / static_cast<double>(x.size()) + u.norm.epsilon) *
                element(w.norm.weight, static_cast<int64_t>(i)));
  std::vector<std::pair<double, int64_t>> scores;
  double all = 0, chosen = 0;
  for (int64_t e = 0; e < u.experts; ++e) {
    const double z = row_output(w.router, e, n);
    scores.emplace_back(u.score == RouterScore::sigmoid ? sigmoid(z) : std::exp(z), e);
    all += scores.back().first;
  }
  if (u.score == RouterScore::sigmoid) all = 1;
  const auto choice = [&](int64_t e) {
    return scores[static_cast<size_t>(e)].first + (u.choice_bias ? element(w.choice_bias, e) : 0);
  };
  const int64_t size = u.experts / u.groups;
  std::vector<std::pair<double, int64_t>> groups, by_choice;
  for (int64_t g = 0; g < u.groups; ++g) {
    std::vector<double> of_group;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) of_group.push_back(choice(e));
    std::sort(of_group.rbegin(), of_group.rend());
    groups.emplace_back(of_group[0] + (u.score == RouterScore::sigmoid && size > 1 ? of_group[1] : 0), g);
  }
  std::sort(groups.rbegin(), groups.rend());
  groups.resize(static_cast<size_t>(u.top_groups));
  for (const auto& [score, g] : groups)
    for (int64_t e = g * size; e < (g + 1) * size; ++e) by_choice.emplace_back(choice(e), e);
  std::sort(by_choice.rbegin(), by_choice.rend());
  by_choice.resize(static_cast<size_t>(u.top_k));
  const std::vector<std::pair<double, int64_t>> of_all = scores;
  scores.clear();
  for (const auto& [score, e] : by_choice) scores.push_back(of_all[static_cast<size_t>(e)]);
  for (const auto& [score, e] : scores) chosen += score;
  for (const auto& [score, e] : scores) {
    const std::vector<double> f = mlp_of_row(w.up[static_cast<size_t>(e)], w.down[static_cast<size_t>(e)], n, u.bounds);
    for (size_t i = 0; i < y.size(); ++i) y[i] += u.scaling * score / (u.normalized ? chosen : all) * f[i];
  }
  if (u.shared_hidden == 0) return y;
  const std::vector<double> f = mlp_of_row(w.shared_up, w.shared_down, n);
  const double gate = u.shared_gate ? sigmoid(dot(dense_rows(w.shared_gate), 0, n)) : 1;
  for (size_t i = 0; i < y.size(); ++i) y[i] += gate * f[i];
  return y;
}

TEST(Experts, SortedRowsGiveWhatOneTokenAfterTheOtherGives) {
  for (const char* family : {"mixtral", "qwen2_moe", "deepseek_v2", "deepseek_v3", "gpt_oss"}) {
    HfConfig config = tiny_config(family);
    if (config.gate_limit > 0) config.gate_limit = 0.7;
    const ModelSpec spec = model_spec(config);
    const int unit = 2;
    const MoeSpec* u = moe_of(spec.units[unit]);
    ASSERT_TRUE(u);
    for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-13}, {DType::f32, 3e-6}, {DType::bf16, 2e-2}}) {
      Arena arena;
      arena.set_poison(true);
      const Compute c{arena};
      const ModelWeights weights = random_weights(spec, dtype, arena, 3);
      const std::vector<int32_t> tokens = random_tokens(29, spec.vocab, 4);
      const Rows rows = make_rows(tokens, {0, 29}, nullptr);
      const Tensor x = arena.allocate(dtype, {29, spec.width}, MemoryClass::activations);
      fill_normal(x, 1, 5);
      const Tensor got = unit_forward(spec, unit, weights.units[unit], rows, x, nullptr, nullptr, c);
      const Tensor want = arena.allocate(DType::f64, {29, spec.width}, MemoryClass::staging);
      for (int64_t t = 0; t < 29; ++t) {
        std::vector<double> row;
        for (int64_t i = 0; i < spec.width; ++i) row.push_back(element(x, t * spec.width + i));
        const std::vector<double> y = token_result(*u, std::get<MoeWeights>(weights.units[unit]), row);
        for (int64_t i = 0; i < spec.width; ++i) set_element(want, t * spec.width + i, y[static_cast<size_t>(i)]);
      }
      EXPECT_LE(relative_error(got, want), bound) << family << " " << name_of(dtype);
    }
  }
}

// Files of DeepSeek-V3 may hold a layer more, which says what comes after the next token.
TEST(Experts, LayersThatPredictFurtherTokensAreNotRead) {
  std::string dir = testing::TempDir() + "tern-layers-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  HfConfig config = tiny_config("deepseek_v3");
  Arena arena;
  const ModelSpec spec = model_spec(config);
  save_model(spec, config, random_weights(spec, DType::f32, arena, 1), DType::f32, dir, real_io());
  const std::vector<float> numbers(6, 0.5f);
  const Weights saved(dir + "/model.safetensors");
  std::vector<TensorToWrite> all{
      {"model.layers.2.eh_proj.weight", DType::f32, {2, 3}, std::as_bytes(std::span(numbers)), {}}};
  for (size_t i = 0; i < saved.size(); ++i)
    all.push_back({std::string(saved[i].name),
                   *saved[i].dtype,
                   {saved[i].shape.begin(), saved[i].shape.end()},
                   saved[i].bytes,
                   {}});
  const std::string more = dir + "/more.safetensors";
  write_safetensors(real_io(), more, all);
  EXPECT_THROW(load_weights(spec, more, DType::f32, arena), Error);
  EXPECT_EQ(check_weights(spec, more).problems.size(), 1u);
  config.predicting_layers = 1;
  EXPECT_NO_THROW(load_weights(model_spec(config), more, DType::f32, arena));
  EXPECT_TRUE(check_weights(model_spec(config), more).problems.empty());
  remove_all(real_io(), dir);
}

// Many logits are equal: who wins, and what it weighs.
TEST(Experts, EqualScoresAreChosenAsTheReferenceChooses) {
  const std::string place = source_dir() + "/tests/golden/routers.json";
  const Json golden = parse_json(read_text_file(place, 1 << 20), place, {});
  ASSERT_GE(golden.size(), 9u);
  for (const Json& g : golden) {
    const Router router{.experts = g["experts"],
                        .top_k = g["top_k"],
                        .normalized = g["normalized"],
                        .score = g.value("sigmoid", false) ? Score::sigmoid : Score::softmax,
                        .scaling = g.value("scaling", 1.0),
                        .groups = g.value("groups", int64_t{1}),
                        .top_groups = g.value("top_groups", int64_t{1})};
    const auto bias = g["bias"].get<std::vector<float>>();
    std::vector<float> scores, weights;
    for (const Json& row : g["logits"])
      for (const char digit : row.get<std::string>())
        scores.push_back(static_cast<float>(digit < 'a' ? digit - '0' : digit - 'W'));
    weights.resize(scores.size() / static_cast<size_t>(router.experts) * static_cast<size_t>(router.top_k));
    std::vector<int32_t> chosen(weights.size());
    choose_experts(router, bias, scores, chosen, weights);
    size_t i = 0;
    for (size_t row = 0; row < g["chosen"].size(); ++row)
      for (size_t k = 0; k < g["chosen"][row].size(); ++k, ++i) {
        EXPECT_EQ(chosen[i], g["chosen"][row][k].get<int32_t>()) << g["name"] << ", row " << row;
        EXPECT_NEAR(weights[i], g["weights"][row][k].get<double>(), 1e-6) << g["name"] << ", row " << row;
      }
    EXPECT_EQ(i, chosen.size());
  }
}

}  // namespace
}  // namespace tern
