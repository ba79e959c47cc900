// PEFT directories: what PEFT 0.21 saved gives its logits here (dev/golden/adapters.py), and is written back to the bit.

#include "model/adapter_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/adapter_files_testing.h"
#include "model/allocate_weights.h"
#include "model/fragment.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "model/whole_modules.h"

namespace tern {
namespace {

struct AdapterCase {
  std::string name, dir, base;
  Json modules;
  ModelSpec spec;  // with the adapter's
  explicit AdapterCase(const std::string& which) : name(which), dir(golden("adapters/" + which)) {
    const Json about = read_json_file(dir + "/modules.json");
    base = golden("models/" + about.at("model").get<std::string>());
    modules = about.at("modules");
    spec = with_adapters(model_spec(read_hf_config(base + "/config.json")), config(), dir, AdapterParts::all);
  }
  PeftConfig config() const { return read_peft_config(peft_config_file(dir)); }
  void load(const std::string& from, ModelWeights& weights, Arena& arena) const {
    load_adapters(spec, from, DType::f32, weights, arena, whole_module_tensors(spec, config(), from));
  }
};

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden("adapters")))
    names.push_back(entry.path().filename());
  EXPECT_GE(names.size(), 12);
  return names;
}

TEST(PeftGolden, EveryModuleHasPeftsRankAndScale) {
  for (const std::string& name : cases()) {
    SCOPED_TRACE(name);
    const AdapterCase c(name);
    size_t found = 0;
    for (const AdaptedPlace& place : adapted_places(c.spec)) {
      const ModuleAdapter* a = find_adapter(c.spec.units[static_cast<size_t>(place.unit)].adapters, place.module);
      ASSERT_EQ(a != nullptr, c.modules.contains(place.path)) << place.path;
      if (!a) continue;
      ++found;
      EXPECT_EQ(a->rank, c.modules[place.path]["rank"]) << place.path;
      EXPECT_DOUBLE_EQ(a->scale, c.modules[place.path]["scale"].get<double>()) << place.path;
    }
    EXPECT_EQ(found, c.modules.size());
  }
}

TEST(PeftGolden, LogitsAreThoseOfPeft) {
  for (const std::string& name : cases()) {
    SCOPED_TRACE(name);
    const AdapterCase c(name);
    Arena arena;
    ModelWeights weights = load_weights(c.spec, c.base, DType::f32, arena);
    const ModelWeights alone = weights;
    put_whole_modules(c.spec, c.config(), c.dir, c.base, DType::f32, weights, arena);
    measure_rows(c.spec, c.base, DType::f32, weights, arena);
    c.load(c.dir, weights, arena);
    const Safetensors inputs(c.base + "/golden.safetensors"), outputs(c.dir + "/logits.safetensors");
    const TensorView ids = inputs.get("tokens"), want = outputs.get("logits");
    std::vector<int32_t> tokens(static_cast<size_t>(ids.num_elements()));
    std::memcpy(tokens.data(), ids.bytes.data(), ids.bytes.size());
    const int64_t length = ids.shape.back();
    std::vector<int64_t> starts;
    for (int64_t at = 0; at <= ids.num_elements(); at += length) starts.push_back(at);
    const RopeTable rope = rope_table(c.spec, length, length);
    const Rows rows = make_rows(tokens, starts, &rope);
    std::vector<int32_t> every(tokens.size());
    std::iota(every.begin(), every.end(), 0);
    const Compute compute{arena, Multiply::exact};
    const auto logits = [&] {
      return head_logits(c.spec, weights, model_forward(c.spec, weights, rows, nullptr, compute), every, compute);
    };
    const Tensor got = logits();
    ASSERT_EQ(got.count(), want.num_elements());
    std::vector<float> expected(static_cast<size_t>(got.count()));
    std::memcpy(expected.data(), want.bytes.data(), want.bytes.size());
    const Tensor wanted = Tensor::borrow(DType::f32, got.shape(), expected.data());
    EXPECT_LE(relative_error(got, wanted), 1e-5);
    // Magnitudes as fixed factors, as inference has them.
    fix_row_factors(c.spec, c.base, DType::f32, weights);
    EXPECT_LE(relative_error(logits(), wanted), 1e-5);
    weights = alone;
    for_each_linear(c.spec, weights, [](const ParameterInfo&, Linear& linear) { linear.branches.clear(); });
    const Tensor without = logits();
    EXPECT_GT(relative_error(without, wanted), 1e-2) << "the adapter would not be noticed";
  }
}

TEST(PeftGolden, WrittenAgainHasTheSameNumbersUnderTheSameNames) {
  const std::string out = testing::TempDir() + "peft_written";
  for (const std::string& name : cases()) {
    SCOPED_TRACE(name);
    const AdapterCase c(name);
    Arena arena;
    ModelWeights weights = empty_weights(c.spec);
    measure_rows(c.spec, c.base, DType::f32, weights, arena);
    c.load(c.dir, weights, arena);
    save_adapters(c.spec, c.config(), weights, out, real_io(), c.dir);
    const Safetensors was(peft_weights_file(c.dir)), is(peft_weights_file(out));
    ASSERT_EQ(is.size(), was.size());
    for (size_t i = 0; i < was.size(); ++i) {
      const TensorView a = was[i], b = is.get(a.name);
      ASSERT_TRUE(std::ranges::equal(a.shape, b.shape)) << a.name;
      if (a.name.ends_with(".lora_magnitude_vector")) {
        // Kept as the difference from the row's own length, in f32; no difference here is twice as large as what it gives.
        for (int64_t row = 0; row < a.num_elements(); ++row) {
          float read = 0, written = 0;
          std::memcpy(&read, a.bytes.data() + row * 4, 4), std::memcpy(&written, b.bytes.data() + row * 4, 4);
          EXPECT_LE(std::abs(written - read), 0x1p-23F * read) << a.name << " row " << row;
        }
      } else {
        EXPECT_TRUE(a.dtype != DType::f32 || std::ranges::equal(a.bytes, b.bytes)) << a.name;
      }
    }
    const AdapterCase again = [&] {
      AdapterCase other = c;
      other.spec = with_adapters(model_spec(read_hf_config(c.base + "/config.json")),
                                 read_peft_config(peft_config_file(out)), out, AdapterParts::all);
      return other;
    }();
    EXPECT_EQ(again.spec.units, c.spec.units);
    // Whatever type it was saved in: read, written, read is the same to the bit.
    ModelWeights back = empty_weights(c.spec);
    measure_rows(c.spec, c.base, DType::f32, back, arena);
    c.load(out, back, arena);
    std::vector<Tensor> first;
    for_each_adapter(c.spec, weights, [&](const ParameterInfo&, Tensor& t) { first.push_back(t); });
    size_t next = 0;
    for_each_adapter(c.spec, back,
                     [&](const ParameterInfo&, Tensor& t) { EXPECT_TRUE(same_bits(t, first.at(next++))); });
  }
}

// The adapter's file without one tensor, with one more, or with a changed one.
std::string error_with(const AdapterCase& c, const std::function<void(std::vector<TensorToWrite>&)>& change) {
  const std::string out = testing::TempDir() + "peft_broken";
  write_changed_adapter(c.dir, out, change);
  Arena arena;
  ModelWeights weights = empty_weights(c.spec);
  const auto error_of = [](const std::function<void()>& read) -> std::string {
    try {
      read();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
    return "accepted";
  };
  const std::string error = error_of([&] { load_adapters(c.spec, out, DType::f32, weights, arena); });
  EXPECT_EQ(error_of([&] { check_adapter(c.spec, out, DType::f32); }), error) << "before anything is loaded";
  return error;
}

TEST(PeftFiles, AMissingAnUnusedAndAWrongTensorAreNamed) {
  const AdapterCase c("names");
  const std::string name = "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight";
  EXPECT_EQ(error_with(c, [](auto&) {}), "accepted");
  EXPECT_NE(
      error_with(c, [&](auto& list) { std::erase_if(list, [&](const auto& t) { return t.name == name; }); }).find(name),
      std::string::npos);
  const auto rename = [&](const char* to) {
    return error_with(c, [&](auto& list) {
      list.push_back(list.front());
      list.back().name = to;
    });
  };
  EXPECT_NE(rename("base_model.model.lm_head.lora_A.weight").find("base_model.model.lm_head.lora_A.weight"),
            std::string::npos);
  const auto reshaped = error_with(c, [&](auto& list) {
    for (TensorToWrite& t : list)
      if (t.name == name) std::swap(t.shape[0], t.shape[1]);
  });
  EXPECT_NE(reshaped.find(name), std::string::npos);
  EXPECT_NE(reshaped.find("(16, 4)"), std::string::npos) << reshaped;
  std::vector<float> nan(64, NAN);
  EXPECT_NE(error_with(c,
                       [&](auto& list) {
                         for (TensorToWrite& t : list)
                           if (t.name == name) t.bytes = std::as_bytes(std::span(nan));
                       })
                .find("nan"),
            std::string::npos);
  EXPECT_THROW(peft_weights_file("/nowhere"), Error);
  PeftConfig other;
  other.targets.names = {"nothing"};
  EXPECT_THROW(with_adapters(model_spec(tiny_config("llama")), other, "x"), Error);
}

// Families whose files hold queries, keys and values otherwise than we do.
TEST(PeftFiles, RowsGoThroughTheFilesOrderAndBack) {
  int tried = 0;
  for_each_dense_variant([&](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    for (const AdaptedPlace& place : adapted_places(full))  // a variant that no family has: one matrix in two files
      for (const Fragment& f : place.out_rows)
        if (f.name != place.out_rows.front().name) return;
    ++tried;
    const std::string out = testing::TempDir() + "peft_rows";
    const ModelSpec spec = with_adapters(full, 2);
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5), back = empty_weights(spec);
    PeftConfig config;
    config.targets.all_linear = true, config.rank = 2, config.alpha = 2;
    EXPECT_EQ(with_adapters(full, config, "x").units, spec.units);
    save_adapters(spec, config, weights, out, real_io());
    load_adapters(spec, out, DType::f32, back, arena);
    std::vector<Tensor> first;
    for_each_adapter(spec, weights, [&](const ParameterInfo&, Tensor& t) { first.push_back(t); });
    size_t next = 0;
    for_each_adapter(spec, back, [&](const ParameterInfo&, Tensor& t) { EXPECT_TRUE(same_bits(t, first.at(next++))); });
    EXPECT_EQ(next, first.size());
  });
  EXPECT_GE(tried, 5);
}

// Of means and repeated rows the files hold ordinary LoRA, each row of B where the matrix's own row stands.
TEST(PeftFiles, BalancedAdaptersAreWrittenAsOrdinaryOnes) {
  for_each_dense_variant([&](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    for (const AdaptedPlace& place : adapted_places(full))
      for (const Fragment& f : place.out_rows)
        if (f.name != place.out_rows.front().name) return;
    const std::string out = testing::TempDir() + "peft_balanced";
    const ModelSpec plain = with_adapters(full, 3), spec = with_balance(plain, 2, 2);
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5), back = empty_weights(plain);
    save_adapters(spec, {.targets = {.all_linear = true}, .rank = 3, .alpha = 3}, weights, out, real_io());
    load_adapters(plain, out, DType::f32, back, arena);
    std::vector<Tensor> kept;
    for_each_adapter(spec, weights, [&](const ParameterInfo&, Tensor& t) { kept.push_back(t); });
    size_t next = 0;
    for_each_adapter(plain, back, [&](const ParameterInfo& info, Tensor& t) {
      const Tensor& from = kept.at(next++);
      const bool is_a = info.name.ends_with(".a");
      for (int64_t i = 0; i < t.count(); ++i)
        ASSERT_EQ(element(t, i), is_a ? element(from, i / 2) / 2 : element(from, i / 3 / 2 * 3 + i % 3)) << info.name;
    });
    EXPECT_EQ(next, kept.size());
    EXPECT_THROW(load_adapters(spec, out, DType::f32, weights, arena), Error) << "a balanced branch is no ordinary one";
  });
}

// Of an elastic branch the files hold ordinary LoRA, which is the branch.
TEST(PeftFiles, ElasticAdaptersAreWrittenAsOrdinaryOnes) {
  for_each_dense_variant([&](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    const std::string out = testing::TempDir() + "peft_elastic";
    const ModelSpec plain = with_adapters(full, 4, 0.5), spec = with_elastic(plain);
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5),
                 same = random_weights(plain, DType::f32, arena, 5);
    save_adapters(spec, {.targets = {.all_linear = true}, .rank = 4, .alpha = 2}, weights, out, real_io());
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const RopeTable rope = rope_table(spec, 16, 16);
    const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
    const Tensor want = model_forward(spec, weights, rows, nullptr, {arena});
    EXPECT_GT(relative_error(model_forward(plain, same, rows, nullptr, {arena}), want), 1e-3) << "shares do nothing";
    load_adapters(plain, out, DType::f32, same, arena);
    EXPECT_LE(relative_error(model_forward(plain, same, rows, nullptr, {arena}), want), 1e-5);
  });
}

// Where the files hold a matrix's row, they hold the adapter's row of B.
TEST(PeftFiles, RowsOfBStandWhereTheMatrixsOwnRowsDo) {
  const std::string out = testing::TempDir() + "peft_places";
  int moved = 0;
  for_each_dense_variant([&](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    const ModelSpec spec = with_adapters(full, 2);
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5);
    save_adapters(spec, {.targets = {.all_linear = true}, .rank = 2, .alpha = 2}, weights, out, real_io());
    const Safetensors file(peft_weights_file(out));
    for_each_linear(spec, weights, [&](const ParameterInfo& info, const Linear& linear) {
      for (const Branch& b : linear.branches)
        for (const Fragment& f : info.fragments) {
          const auto view = file.find("base_model.model." + f.name.substr(0, f.name.size() - 7) + ".lora_B.weight");
          if (!view || f.row_begin < b.row_begin || f.row_end > b.row_end) continue;
          for (int64_t r = f.row_begin; r < f.row_end; ++r) {
            const int64_t row = f.file_row + f.file_step * (r - f.row_begin);
            float x = 0;
            std::memcpy(&x, view->bytes.data() + row * b.rank * 4, 4);
            ASSERT_EQ(static_cast<double>(x), element(b.b, (r - b.row_begin) * b.rank)) << f.name << " " << row;
            moved += row != r - b.row_begin;
          }
        }
    });
  });
  EXPECT_GT(moved, 0) << "no family's rows stand in another order";
}

}  // namespace
}  // namespace tern
