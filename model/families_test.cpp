// Every family, and variants of its configuration, against transformers + torch (dev/golden/families.py): logits, every
// gradient, 64 greedy tokens over a paged cache; and there and back through the files. Weights are functions of their
// names in the file, so the golden files hold none.

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "formats/hf/fields.h"
#include "formats/small_file.h"
#include "model/fragment.h"
#include "model/golden_weights_testing.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "model/sum_gradients.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr uint64_t kSigns = 4;

double sign(uint64_t k, uint64_t i) { return golden_bits(golden_hash(fmt::format("signs {}", k)), i) & 1 ? 1 : -1; }

std::string folder_of_goldens() { return source_dir() + "/tests/golden/families"; }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of_goldens()))
    all.push_back(entry.path().stem().string());
  std::sort(all.begin(), all.end());
  return all;
}

// A directory made of a golden file: config.json and the weights it implies.
struct Family {
  Json golden;
  std::string dir = testing::TempDir() + "tern-family-XXXXXX";
  HfConfig config;
  ModelSpec spec;
  std::vector<int32_t> tokens, targets, types;
  std::vector<int64_t> starts{0};
  RopeTable rope;
  Rows rows;

  explicit Family(const std::string& name)
      : golden(parse_json(read_text_file(folder_of_goldens() + "/" + name + ".json", 1 << 20), name, {})) {
    EXPECT_NE(::mkdtemp(dir.data()), nullptr);
    write_golden_model(golden, dir);
    config = read_hf_config(join_path(dir, "config.json"));
    spec = model_spec(config);
    for (const Json& row : golden["tokens"]) {
      for (const Json& id : row) tokens.push_back(id.get<int32_t>());
      starts.push_back(static_cast<int64_t>(tokens.size()));
      if (golden.contains("types"))
        for (const Json& kind : golden["types"]) types.push_back(kind.get<int32_t>());
    }
    for (size_t t = 0; t < tokens.size(); ++t)
      targets.push_back(std::ranges::count(starts, static_cast<int64_t>(t) + 1) ? -1 : tokens[t + 1]);
    rope = rope_table(spec, 128, 16);
    rows = make_rows(tokens, starts, &rope);
    rows.types = types;
  }
  ~Family() { remove_all(real_io(), dir); }
  Family(const Family&) = delete;

  double num_targets() const {
    return static_cast<double>(std::ranges::count_if(targets, [](int t) { return t >= 0; }));
  }
};

// The reference's norm, and its products with the vectors of signs. Each product of a difference Δ has the mean square
// ‖Δ‖², so the root of their mean square estimates ‖Δ‖.
struct Products {
  std::vector<double> sums = std::vector<double>(kSigns);
  double squares = 0;
  void add(uint64_t at, double x) {
    squares += x * x;
    for (uint64_t k = 0; k < kSigns; ++k) sums[k] += x * sign(k, at);
  }
  double error(const Json& want) const {
    double differences = 0;
    for (size_t k = 0; k < kSigns; ++k) differences += std::pow(sums[k] - want[k + 1].get<double>(), 2);
    return std::sqrt(differences / kSigns) / want[0].get<double>();
  }
};

Tensor all_logits(const Family& f, const ModelWeights& weights, const Compute& c) {
  std::vector<int32_t> every(f.tokens.size());
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<int32_t>(i);
  return head_logits(f.spec, weights, model_forward(f.spec, weights, f.rows, nullptr, c), every, c);
}

// The tensors of the file that a parameter stands in, with its gradient's products.
void expect_gradients(const Family& f, ModelWeights& gradients) {
  std::map<std::string, Products> of_file;
  for_each_parameter(f.spec, gradients, [&](const ParameterInfo& info, Tensor& t) {
    const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
    for (const Fragment& g : info.fragments) {
      std::string name = g.name;  // files of the bare model lack the prefix
      if (!f.golden["gradients"].contains(name)) name.erase(0, f.spec.prefix.size());
      for (int64_t r = g.row_begin; r < g.row_end; ++r)
        for (int64_t i = 0; i < width; ++i) {
          const int64_t row = g.file_row + (r - g.row_begin) * g.file_step;
          const int64_t at = g.transposed ? i * g.file_rows + row : row * width + i;
          of_file[name].add(static_cast<uint64_t>(g.slab * g.file_rows * width + at), element(t, r * width + i));
        }
    }
  });
  double largest = 0;
  for (const auto& [name, want] : f.golden["gradients"].items()) largest = std::max(largest, want[0].get<double>());
  for (const auto& [name, want] : f.golden["gradients"].items()) {
    ASSERT_TRUE(of_file.contains(name)) << name;
    const double norm = want[0], own = std::sqrt(of_file[name].squares);
    if (norm == 0) {  // an expert that no token chose
      EXPECT_EQ(own, 0) << name;
      EXPECT_NE(name.find(".experts."), name.npos) << name;
    } else if (norm < 1e-6 * largest) {
      // Zero but for rounding, a bias on keys that do not turn (a softmax does not see it): no relative error.
      EXPECT_LE(own, 1e-6 * largest) << name;
      EXPECT_TRUE(name.ends_with("k_proj.bias") || name.ends_with("key.bias")) << name;
    } else {
      EXPECT_LE(of_file[name].error(want), kGradientsBound) << name;
    }
  }
  EXPECT_EQ(of_file.size(), f.golden["gradients"].size());
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, LogitsAndEveryGradientInF32) {
  const Family f(GetParam());
  for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
    Arena arena;
    arena.set_poison(true);
    const Compute c{arena, multiply};
    const ModelWeights weights = load_weights(f.spec, f.dir, DType::f32, arena);
    const Tensor logits = all_logits(f, weights, c);
    const int64_t vocab = f.spec.vocab;
    for (int64_t r = 0; r < logits.rows(); ++r) {
      Products p;
      for (int64_t v = 0; v < vocab; ++v) p.add(static_cast<uint64_t>(v), element(logits, r * vocab + v));
      EXPECT_LE(p.error(f.golden["logits"][static_cast<size_t>(r)]), kLogitsBound) << "row " << r;
    }
    double difference = 0, norm = 0;
    for (int64_t v = 0; v < vocab; ++v) {
      const double want = f.golden["last_logits"][static_cast<size_t>(v)].get<double>();
      difference += std::pow(element(logits, (logits.rows() - 1) * vocab + v) - want, 2), norm += want * want;
    }
    EXPECT_LE(std::sqrt(difference / norm), kLogitsBound);

    ModelWeights gradients = zero_gradients(f.spec, DType::f32, arena);
    const double loss = add_gradients(f.spec, weights, f.rows, f.targets, 1 / f.num_targets(), gradients, c);
    join_tied_gradients(f.spec, gradients);
    EXPECT_NEAR(loss / f.num_targets(), f.golden["loss"].get<double>(), 1e-5 * loss / f.num_targets());
    expect_gradients(f, gradients);
  }
}

TEST_P(Families, SixtyFourGreedyTokensAreTheReferences) {
  const Family f(GetParam());
  if (!f.spec.predicts) {  // an encoder
    EXPECT_TRUE(f.golden["greedy"].empty());
    return;
  }
  Arena arena;
  const Compute c{arena, Multiply::exact};
  ModelWeights weights = load_weights(f.spec, f.dir, DType::f32, arena);
  pack_weights(f.spec, weights, arena);
  const std::vector<int32_t> prompt(f.tokens.begin(), f.tokens.begin() + f.starts[1]);
  const auto want = f.golden["greedy"].get<std::vector<int32_t>>();
  ASSERT_EQ(want.size(), 64u);
  const AttentionSpec& u = first_attention(f.spec);
  constexpr int64_t kPage = 16, kPages = 8;
  std::vector<Tensor> keys, values;
  for (int64_t layer = 0; layer < f.spec.layers; ++layer)
    for (auto* store : {&keys, &values})
      store->push_back(arena.allocate(DType::f32, {kPages, u.kv_heads, kPage, u.head_dim}, MemoryClass::kv_cache));
  KvView kv{.page_tokens = kPage,
            .past = {0},
            .begins = {0, kPages},
            .pages = {5, 2, 7, 0, 1, 6, 3, 4},
            .keys = keys,
            .values = values};
  std::vector<int32_t> got, next = prompt;
  while (got.size() < want.size()) {
    Rows rows{.tokens = next, .starts = {0, static_cast<int64_t>(next.size())}, .positions = {}, .rope = &f.rope};
    for (size_t i = 0; i < next.size(); ++i)
      rows.positions.push_back(static_cast<int32_t>(kv.past[0]) + static_cast<int32_t>(i));
    const Tensor x = model_forward(f.spec, weights, rows, &kv, c);
    const std::vector<int32_t> last{static_cast<int32_t>(next.size()) - 1};
    const Tensor row = head_logits(f.spec, weights, x, last, c);
    const std::span<const float> logits = row.span<float>();
    kv.past[0] += static_cast<int64_t>(next.size());
    got.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    next = {got.back()};
  }
  EXPECT_EQ(got, want) << "the reference's least lead of a token was " << f.golden["smallest_gap"];
}

// Where weights are used as they lie in the file, too, each is found and shared as in training.
TEST_P(Families, WeightsLoadedToInferGiveTheSameBits) {
  const Family f(GetParam());
  Arena arena;
  const Compute c{arena, Multiply::exact};
  const std::string out = join_path(f.dir, "bf16");
  save_model(f.spec, f.config, load_weights(f.spec, f.dir, DType::f32, arena), DType::bf16, out, real_io(), 1 << 20);
  const ModelWeights plain = load_weights(f.spec, out, DType::bf16, arena);
  for (const WeightsIn in : {WeightsIn::mapped_file, WeightsIn::own_memory}) {
    const ModelWeights inferring = load_weights_to_infer(f.spec, out, DType::bf16, arena, in);
    EXPECT_TRUE(same_bits(all_logits(f, inferring, c), all_logits(f, plain, c)));
  }
}

// Beside an export for dev/golden/check_export.py: what its logits are here.
void write_logits(const Family& f, const Tensor& logits, const std::string& path) {
  const auto bytes = [](const void* data, int64_t count) {
    return std::span(static_cast<const std::byte*>(data), static_cast<size_t>(count));
  };
  const auto num = static_cast<int64_t>(f.tokens.size()), sequences = static_cast<int64_t>(f.starts.size()) - 1;
  const std::vector<TensorToWrite> entries{
      {"tokens", DType::i32, {sequences, num / sequences}, bytes(f.tokens.data(), 4 * num), {}},
      {"logits", DType::f32, {num, f.spec.vocab}, bytes(logits.data(), logits.bytes()), {}}};
  write_safetensors(real_io(), path, entries);
}

TEST_P(Families, WrittenAndReadAgainNothingChanges) {
  const Family f(GetParam());
  Arena arena;
  const Compute c{arena};
  const ModelWeights weights = load_weights(f.spec, f.dir, DType::f32, arena);
  const char* given = std::getenv("TERN_EXPORT_DIR");  // for dev/golden/check_export.py
  const std::string out = given ? join_path(given, "family-" + GetParam()) : join_path(f.dir, "out");
  save_model(f.spec, f.config, weights, DType::f32, out, real_io(), 20'000);
  if (given) write_logits(f, all_logits(f, weights, c), out + ".logits.safetensors");
  HfConfig again = read_hf_config(join_path(out, "config.json")), before = f.config;
  again.notes = before.notes = {}, again.dtype = before.dtype = {};
  again.architectures = before.architectures = {};
  EXPECT_EQ(again, before);
  const ModelSpec spec = model_spec(again);
  const ModelWeights loaded = load_weights(spec, out, DType::f32, arena);
  EXPECT_TRUE(same_bits(all_logits(f, loaded, c), all_logits(f, weights, c)));
  for (const HfForm form : {HfForm::v5, HfForm::v4}) {
    HfConfig read = parse_hf_config(hf_config_json(f.config, form), "written");
    read.notes = {}, read.dtype = {}, read.architectures = {};
    EXPECT_EQ(read, before) << (form == HfForm::v4 ? "old form" : "new form");
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, Families, testing::ValuesIn(names()), [](const auto& row) { return row.param; });

// docs/families.md: a family is a row of a table for Hugging Face's files and one for GGUF's.
TEST(FamilyTable, NoOtherCodeAsksAModelForItsFamily) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* folder : {"apps", "base", "comm", "eval", "exec", "formats", "infer", "kernels", "model", "plan",
                             "planner", "program", "report", "spec", "train"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / folder)) {
      const std::string path = entry.path().string();
      if (!(path.ends_with(".cpp") || path.ends_with(".h")) || path.find("_test") != path.npos) continue;
      const std::string text = read_text_file(path, 1 << 24);
      ++files;
      for (const char* name : {"model_type", "family", "family_", "architecture", "architecture_"})
        for (const char* compared : {" == \"", " != \""})
          EXPECT_EQ(text.find(std::string(name) + compared), text.npos) << path << ": " << name << compared;
    }
  EXPECT_GT(files, 300);
}

TEST(FamilyTable, EveryFamilyHasAGoldenFile) {
  std::vector<std::string> seen;
  for (const std::string& name : names())
    seen.push_back(parse_json(read_text_file(folder_of_goldens() + "/" + name + ".json", 1 << 20), name,
                              {})["config"]["model_type"]
                       .get<std::string>());
  for (const std::string& family : supported_families())
    EXPECT_TRUE(std::ranges::count(seen, family)) << family << " has none: add it to dev/golden/families.py";
}

}  // namespace
}  // namespace tern
