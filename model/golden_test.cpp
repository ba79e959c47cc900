// Tiny random models of transformers + torch (dev/golden/models.py): logits, every gradient, ten AdamW steps.

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/io.h"
#include "base/source_dir_testing.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/fragment.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/sum_gradients.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr int64_t kSteps = 10;

struct GoldenModel {
  std::string name, dir;
  ModelSpec spec;
  Safetensors file;
  std::vector<int32_t> tokens, targets;
  RopeTable rope;
  Rows rows;
  double num_targets = 0;

  explicit GoldenModel(const std::string& model)
      : name(model),
        dir(source_dir() + "/tests/golden/models/" + model),
        spec(model_spec(read_hf_config(dir + "/config.json"))),
        file(dir + "/golden.safetensors"),
        rope(rope_table(spec, 64, 16)) {
    const TensorView ids = file.get("tokens");
    tokens.resize(static_cast<size_t>(ids.num_elements()));
    std::memcpy(tokens.data(), ids.bytes.data(), ids.bytes.size());
    std::vector<int64_t> starts{0};
    const int64_t seq = ids.shape[1];
    for (size_t t = 0; t < tokens.size(); ++t) {
      const bool last = (static_cast<int64_t>(t) + 1) % seq == 0;
      targets.push_back(last ? -1 : tokens[t + 1]);
      num_targets += last ? 0 : 1;
      if (last) starts.push_back(static_cast<int64_t>(t) + 1);
    }
    rows = make_rows(tokens, starts, &rope);
  }

  std::vector<double> values(const std::string& tensor) const {
    const TensorView view = file.get(tensor);
    std::vector<float> raw(view.bytes.size() / 4);
    std::memcpy(raw.data(), view.bytes.data(), view.bytes.size());
    return {raw.begin(), raw.end()};
  }
};

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden/models"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// ‖got - want‖/‖want‖ over the elements; got by a function, so that it cannot be the same buffer.
double relative(const std::vector<double>& want, const std::function<double(int64_t)>& got) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = got(static_cast<int64_t>(i)) - want[i];
    difference += d * d;
    norm += want[i] * want[i];
  }
  return want.empty() ? NAN : std::sqrt(difference / norm);
}

// Our rows of a fragment against the file's tensor `prefix + name`.
double fragment_error(const GoldenModel& g, const std::string& prefix, const Fragment& f, const Tensor& ours) {
  const int64_t width = ours.count() / ours.rows(), rows = f.row_end - f.row_begin;
  EXPECT_EQ(f.file_rows, rows);
  return relative(g.values(prefix + f.name), [&](int64_t i) {
    return element(ours, f.transposed ? (f.row_begin + i % rows) * width + i / rows : f.row_begin * width + i);
  });
}

std::vector<int32_t> every_row(const GoldenModel& g) {
  std::vector<int32_t> rows(g.tokens.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  return rows;
}

// A bound for bf16, u = 2⁻⁸. Along a path from token to logit every stored result is rounded once: 3 at the ends
// (table, final norm, projection weight) and 16 a layer (norm, qkv, turned, context, out, sum; norm, up, act, down,
// sum; five weights). Roundings are independent of each other, so their relative errors add in squares, each at most u,
// uniform: u/√3; sums are f32 and a context over `length` keys averages its errors, adding no more. The factor 4 is for
// what the units amplify (the softmax's slope in its scores, norms of sums that cancel). The backward goes the same way
// back: twice the roundings.
double bf16_bound(const ModelSpec& spec, int directions) {
  const double u = std::ldexp(1.0, -8), roundings = 3.0 + 16.0 * static_cast<double>(spec.layers);
  return 4 * u / std::sqrt(3.0) * std::sqrt(roundings * directions);
}

class GoldenModels : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModels, LogitsInF32) {
  const GoldenModel g(GetParam());
  for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
    Arena arena;
    const Compute c{arena, multiply};
    const ModelWeights weights = load_weights(g.spec, g.dir, DType::f32, arena);
    const Tensor logits =
        head_logits(g.spec, weights, model_forward(g.spec, weights, g.rows, nullptr, c), every_row(g), c);
    const double error = relative(g.values("logits"), [&](int64_t i) { return element(logits, i); });
    RecordProperty("relative_error", fmt::format("{:.3g}", error));
    EXPECT_LE(error, kLogitsBound);
  }
}

TEST_P(GoldenModels, EveryGradientInF32) {
  const GoldenModel g(GetParam());
  for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
    Arena arena;
    const Compute c{arena, multiply};
    const ModelWeights weights = load_weights(g.spec, g.dir, DType::f32, arena);
    ModelWeights gradients = zero_gradients(g.spec, DType::f32, arena);
    const double loss =
        add_gradients(g.spec, weights, g.rows, g.targets, 1 / g.num_targets, gradients, c) / g.num_targets;
    join_tied_gradients(g.spec, gradients);
    const TensorView losses = g.file.get("step_losses");
    double first = 0;
    std::memcpy(&first, losses.bytes.data(), sizeof first);
    EXPECT_NEAR(loss, first, 1e-5 * first);
    double worst = 0;
    for_each_parameter(g.spec, gradients, [&](const ParameterInfo& info, Tensor& t) {
      for (const Fragment& f : info.fragments) {
        const double error = fragment_error(g, "grad.", f, t);
        worst = std::max(worst, error);
        EXPECT_LE(error, kGradientsBound) << f.name;
      }
    });
    RecordProperty("worst_relative_error", fmt::format("{:.3g}", worst));
  }
}

TEST_P(GoldenModels, TenAdamwSteps) {
  const GoldenModel g(GetParam());
  Arena arena;
  const Compute c{arena, Multiply::fast};
  ModelWeights weights = load_weights(g.spec, g.dir, DType::f32, arena),
               gradients = zero_gradients(g.spec, DType::f32, arena), m = zero_gradients(g.spec, DType::f32, arena),
               v = zero_gradients(g.spec, DType::f32, arena);
  const std::vector<ParameterInfo> infos = parameters(g.spec);
  const std::vector<Tensor*> ws = tensors(g.spec, weights), gs = tensors(g.spec, gradients), ms = tensors(g.spec, m),
                             vs = tensors(g.spec, v);
  const TensorView losses = g.file.get("step_losses");
  ASSERT_EQ(losses.num_elements(), kSteps);
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (Tensor* t : gs) t->fill_zero();
    const double loss =
        add_gradients(g.spec, weights, g.rows, g.targets, 1 / g.num_targets, gradients, c) / g.num_targets;
    join_tied_gradients(g.spec, gradients);
    double want = 0;
    std::memcpy(&want, losses.bytes.data() + 8 * (step - 1), sizeof want);
    EXPECT_NEAR(loss, want, 1e-4 * want) << "step " << step;
    for (size_t i = 0; i < infos.size(); ++i)
      adamw_step({.learning_rate = 3e-3,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .epsilon = 1e-8,
                  .weight_decay = infos[i].decay ? 0.1 : 0.0,
                  .step = step,
                  .gradient_scale = 1},
                 gs[i]->span<float>(), ws[i]->span<float>(), ms[i]->span<float>(), vs[i]->span<float>(), {});
  }
  for_each_parameter(g.spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    for (const Fragment& f : info.fragments) {
      // Without rotary positions a bias on the keys adds q·b to every score of a row, which the softmax does not see:
      // its gradient is rounding noise around zero, and AdamW makes full steps of noise. The two thirds that matter are
      // compared.
      if (g.spec.family == "gpt2" && info.name.ends_with("attention.qkv.bias")) {
        const std::vector<double> want = g.values("final." + f.name);
        const int64_t third = t.count() / 3;
        for (const int64_t begin : {int64_t{0}, 2 * third})
          EXPECT_LE(relative({want.begin() + begin, want.begin() + begin + third},
                             [&](int64_t i) { return element(t, begin + i); }),
                    kGradientsBound)
              << f.name << " from " << begin;
        continue;
      }
      EXPECT_LE(fragment_error(g, "final.", f, t), kGradientsBound) << f.name;
    }
  });
}

TEST_P(GoldenModels, Bf16StaysWithinItsBound) {
  const GoldenModel g(GetParam());
  const std::vector<double> want = g.values("logits"), theirs = g.values("logits_bf16");
  for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
    Arena arena;
    const Compute c{arena, multiply};
    const ModelWeights weights = load_weights(g.spec, g.dir, DType::bf16, arena);
    const Tensor logits =
        head_logits(g.spec, weights, model_forward(g.spec, weights, g.rows, nullptr, c), every_row(g), c);
    const double error = relative(want, [&](int64_t i) { return element(logits, i); });
    EXPECT_LE(error, bf16_bound(g.spec, 1));
    EXPECT_GT(error, 1e-5) << "this was not bf16";
    ModelWeights gradients = zero_gradients(g.spec, DType::bf16, arena);
    add_gradients(g.spec, weights, g.rows, g.targets, 1 / g.num_targets, gradients, c);
    join_tied_gradients(g.spec, gradients);
    double worst = 0;
    for_each_parameter(g.spec, gradients, [&](const ParameterInfo& info, Tensor& t) {
      for (const Fragment& f : info.fragments) {
        worst = std::max(worst, fragment_error(g, "grad.", f, t));
        EXPECT_LE(fragment_error(g, "grad.", f, t), bf16_bound(g.spec, 2)) << f.name;
      }
    });
    std::printf(
        "[ bf16     ] %s, %s: logits %.4f (torch's own bf16 %.4f, bound %.4f), worst gradient %.4f (bound %.4f)\n",
        g.name.c_str(), multiply == Multiply::fast ? "fast" : "exact", error,
        relative(want, [&](int64_t i) { return theirs[static_cast<size_t>(i)]; }), bf16_bound(g.spec, 1), worst,
        bf16_bound(g.spec, 2));
  }
}

// A folder that dev/golden/check_export.py names, to reload what is written there in transformers and compare the
// logits; else one of this test's own, gone with it.
struct ExportFolder {
  std::string path;
  bool own = false;
  ExportFolder() {
    if (const char* given = std::getenv("TERN_EXPORT_DIR")) {
      path = given;
      return;
    }
    path = testing::TempDir() + "tern-export-XXXXXX";
    own = ::mkdtemp(path.data()) != nullptr;
  }
  ~ExportFolder() {
    if (own) remove_all(real_io(), path);
  }
};

TEST_P(GoldenModels, AShardedExportReloadsToTheSameLogits) {
  const ExportFolder folder;
  const std::string& out = folder.path;
  const GoldenModel g(GetParam());
  Arena arena;
  const Compute c{arena};
  ModelWeights weights = allocate_weights(g.spec, DType::f32, MemoryClass::weights, arena);
  initialize_weights(g.spec, weights, 1);
  const std::string dir = join_path(out, g.name);
  save_model(g.spec, read_hf_config(g.dir + "/config.json"), weights, DType::f32, dir, real_io(), 20'000);
  const Tensor logits =
      head_logits(g.spec, weights, model_forward(g.spec, weights, g.rows, nullptr, c), every_row(g), c);
  const int64_t num = logits.rows(), vocab = logits.shape()[1];
  const auto raw = [](const void* data, int64_t bytes) {
    return std::span(static_cast<const std::byte*>(data), static_cast<size_t>(bytes));
  };
  const std::vector<TensorToWrite> entries{
      {"tokens", DType::i32, {num}, raw(g.tokens.data(), 4 * num), {}},
      {"logits", DType::f32, {num, vocab}, raw(logits.data(), logits.bytes()), {}}};
  write_safetensors(real_io(), join_path(out, g.name + ".logits.safetensors"), entries);

  EXPECT_GT(Weights(join_path(dir, "model.safetensors.index.json")).files().size(), 1u);
  const ModelSpec spec = model_spec(read_hf_config(join_path(dir, "config.json")));
  const ModelWeights loaded = load_weights(spec, dir, DType::f32, arena);
  const Tensor again = head_logits(spec, loaded, model_forward(spec, loaded, g.rows, nullptr, c), every_row(g), c);
  ASSERT_EQ(again.bytes(), logits.bytes());
  EXPECT_EQ(std::memcmp(again.data(), logits.data(), static_cast<size_t>(logits.bytes())), 0);
}

INSTANTIATE_TEST_SUITE_P(Transformers, GoldenModels, testing::ValuesIn(golden_models()),
                         [](const auto& row) { return row.param; });

TEST(GoldenFolder, HoldsEveryFamily) {
  for (const std::string name : {"llama", "llama_tied", "mistral", "gpt2"})
    EXPECT_TRUE(std::ranges::count(golden_models(), name)) << name << " is missing: run dev/golden/models.py";
}

}  // namespace
}  // namespace tern
