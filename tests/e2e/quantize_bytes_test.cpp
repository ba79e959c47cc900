// What tern quantize writes, to the byte: sizes by formulas that stand here, the same bytes for any threads and behind
// kills, and what a second rounding changes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/io.h"
#include "base/json.h"
#include "formats/gguf/gguf.h"
#include "formats/safetensors/safetensors.h"
#include "tests/e2e/quantize_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

// A type's bytes, written from docs/coded-directories.md and GGUF's blocks, not from base/weight_types.def.
struct TypeBytes {
  const char* type;
  int64_t block;
  int64_t (*rows)(int64_t n, int64_t k);  // of n rows of k numbers
  int64_t levels = 0;                     // of the four learned tables together
};
constexpr TypeBytes kTypeBytes[] = {
    {"q8_0", 32, [](int64_t n, int64_t k) { return n * k / 32 * (2 + 32); }},
    {"q5_1", 32, [](int64_t n, int64_t k) { return n * k / 32 * (4 + 4 * 5); }},
    {"q5_0", 32, [](int64_t n, int64_t k) { return n * k / 32 * (2 + 4 * 5); }},
    {"q4_1", 32, [](int64_t n, int64_t k) { return n * k / 32 * (4 + 4 * 4); }},
    {"q4_0", 32, [](int64_t n, int64_t k) { return n * k / 32 * (2 + 4 * 4); }},
    {"q6_k", 256, [](int64_t n, int64_t k) { return n * k / 256 * (2 + 16 + 32 * 6); }},
    {"q5_k", 256, [](int64_t n, int64_t k) { return n * k / 256 * (4 + 12 + 32 * 5); }},
    {"q4_k", 256, [](int64_t n, int64_t k) { return n * k / 256 * (4 + 12 + 32 * 4); }},
    {"u4", 64, [](int64_t n, int64_t k) { return n * k / 64 * (8 + 8 * 4); }},
    {"u3", 64, [](int64_t n, int64_t k) { return n * k / 64 * (8 + 8 * 3); }},
    {"u2", 64, [](int64_t n, int64_t k) { return n * k / 64 * (8 + 8 * 2); }},
    {"nf4", 64, [](int64_t n, int64_t k) { return n * k / 64 * (4 + 8 * 4); }},
    {"nf4_1", 64, [](int64_t n, int64_t k) { return n * k / 64 * (8 + 8 * 4); }},
    {"lc4", 32, [](int64_t n, int64_t k) { return n * (2 + k / 32 + k * 4 / 8); }, 4 * 16},
    {"lc3", 32, [](int64_t n, int64_t k) { return n * (2 + k / 32 + k * 3 / 8); }, 4 * 8},
    {"lc2", 32, [](int64_t n, int64_t k) { return n * (2 + k / 32 + k * 2 / 8); }, 4 * 4},
};
const TypeBytes& bytes_formula(const std::string& type) {
  for (const TypeBytes& t : kTypeBytes)
    if (type == t.type) return t;
  throw std::runtime_error("no formula of " + type);
}

// A safetensors file, read by what the format's page says of it.
struct TensorsOfFile {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, int64_t> bytes;
  int64_t sum = 0, header_bytes = 0;
};
TensorsOfFile tensors_of(const std::string& path) {
  const std::string file = real_io().read(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  TensorsOfFile read{.header_bytes = static_cast<int64_t>(8 + length)};
  const Json header = Json::parse(file.substr(8, length));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string dtype = tensor["dtype"];
    int64_t want = dtype == "F32" ? 4 : dtype == "BF16" ? 2 : 1;
    for (const int64_t size : tensor["shape"]) want *= size;
    read.shapes[name] = tensor["shape"].get<std::vector<int64_t>>();
    read.bytes[name] = tensor["data_offsets"][1].get<int64_t>() - tensor["data_offsets"][0].get<int64_t>();
    read.sum += read.bytes[name];
    EXPECT_EQ(read.bytes[name], want) << name << " " << dtype;
  }
  EXPECT_EQ(read.header_bytes + read.sum, static_cast<int64_t>(file.size())) << path;
  return read;
}

// Queries, keys and values are one matrix of tern's, gate and up another.
std::string fused_name(std::string name) {
  for (const char* part : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"})
    if (const size_t at = name.find(part); at != std::string::npos)
      name.resize(at), name += part[0] == 'g' || part[0] == 'u' ? "gate_up" : "qkv";
  return name;
}

// What the tensors of a model in bf16 take when its matrices are of `type` and its tables of tokens of Q8_0.
struct ExpectedBytes {
  std::map<std::string, int64_t> tensors;
  int64_t matrix_bytes = 0, tensor_bytes = 0;
  std::set<std::string> wide;  // matrices whose rows are no whole blocks
};
ExpectedBytes expected_bytes(const TensorsOfFile& source, const std::string& type) {
  ExpectedBytes want;
  for (const auto& [name, shape] : source.shapes) {
    const bool is_table = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    const TypeBytes& of = bytes_formula(is_table ? "q8_0" : type);
    if (shape.size() == 1) {
      want.tensors[name] = 2 * shape[0];
    } else if (shape[1] % of.block != 0) {
      want.tensors[name] = 2 * shape[0] * shape[1];
      want.wide.insert(fused_name(name));
    } else {
      want.matrix_bytes += want.tensors[name + "." + of.type] = of.rows(shape[0], shape[1]);
      if (of.levels > 0) want.matrix_bytes += want.tensors[name + ".levels"] = of.levels;
    }
  }
  for (const auto& [name, bytes] : want.tensors) want.tensor_bytes += bytes;
  return want;
}

// Every method with its types, as the words of a command.
constexpr MethodAndType kWritten[] = {
    {"rtn", "q8_0"},  {"rtn", "q5_1"},  {"rtn", "q5_0"},  {"rtn", "q4_1"}, {"rtn", "q4_0"}, {"rtn", "q6_k"},
    {"rtn", "q5_k"},  {"rtn", "q4_k"},  {"rtn", "u4"},    {"rtn", "u3"},   {"rtn", "u2"},   {"rtn", "nf4"},
    {"rtn", "nf4_1"}, {"gptq", "q4_0"}, {"gptq", "q4_k"}, {"gptq", "u4"},  {"gptq", "u3"},  {"gptq", "u2"},
    {"lcq", "lc4"},   {"lcq", "lc3"},   {"lcq", "lc2"},
};

class QuantizeBytes : public QuantizesInFolder<QuantizeBytes> {
 protected:
  static void SetUpTestSuite() { make_models("quantize-bytes"); }
  static int64_t bytes_of_files(const std::string& dir) {
    int64_t sum = 0;
    for (const auto& file : std::filesystem::directory_iterator(root_ + "/" + dir))
      sum += static_cast<int64_t>(file.file_size());
    return sum;
  }
};

TEST_F(QuantizeBytes, EveryTensorOfADirectoryTakesTheBytesOfItsFormula) {
  for (const auto& [model, name] : {std::pair{root_ + "/one", "one"}, {trained(), "trained"}}) {
    const TensorsOfFile source = tensors_of(model + "/model.safetensors");
    for (const MethodAndType& as : kWritten) {
      const std::string out = fmt::format("{}-{}-{}", name, as.method, as.type);
      SCOPED_TRACE(out);
      const Json q = quantize(model, as, out);
      const TensorsOfFile made = tensors_of(root_ + "/" + out + "/model.safetensors");
      const ExpectedBytes want = expected_bytes(source, as.type);
      EXPECT_EQ(made.bytes, want.tensors);
      EXPECT_EQ(made.sum, want.tensor_bytes);
      EXPECT_EQ(q["tensor_bytes"], want.tensor_bytes);
      EXPECT_EQ(q["matrix_bytes"], want.matrix_bytes);
      EXPECT_EQ(q["matrices_kept_wide"], want.wide.size());
      EXPECT_EQ(q["bytes"], bytes_of_files(out));
    }
  }
}

TEST_F(QuantizeBytes, EveryTensorOfAGgufFileTakesTheBytesOfItsFormula) {
  for (const auto& [model, name] : {std::pair{root_ + "/one", "one"}, {trained(), "trained"}})
    for (const MethodAndType& as : kWritten) {
      if (as.type[0] != 'q') continue;
      const std::string out = fmt::format("{}-{}-{}.gguf", name, as.method, as.type);
      SCOPED_TRACE(out);
      const Json q = quantize(model, as, out);
      const Gguf file(root_ + "/" + out);
      int64_t numbers = 0, room = 0, wide = 0;
      for (const GgufTensor& t : file.tensors()) {
        const bool is_table = t.name == "token_embd.weight" || t.name == "output.weight";
        const int64_t n = t.sizes[1], k = t.sizes[0];
        const TypeBytes& of = bytes_formula(is_table ? "q8_0" : as.type);
        const bool is_wide = t.rank == 2 && k % of.block != 0;  // then it is f16
        const int64_t want = t.rank == 1 ? 4 * k : is_wide ? 2 * n * k : of.rows(n, k);
        wide += is_wide;
        EXPECT_EQ(static_cast<int64_t>(t.bytes.size()), want) << t.name;
        EXPECT_EQ(file.offset_of(t) % 32, 0) << t.name;
        room += (want + 31) / 32 * 32;
        numbers += n * k;
      }
      const auto size = static_cast<int64_t>(std::filesystem::file_size(root_ + "/" + out));
      EXPECT_EQ(size - file.offset_of(file.tensors().front()), room);
      EXPECT_EQ(q["bytes"], size);
      EXPECT_EQ(q["parameters"], numbers);
      EXPECT_EQ(q["matrices_kept_wide"], wide);
    }
}

// Units whose codes lie there.
int64_t units_in(const std::string& partial) {
  if (!real_io().stat(partial)) return 0;
  int64_t units = 0;
  for (const std::string& name : real_io().list(partial))
    units += name.starts_with("unit-") && name.size() == std::string_view("unit-00000.safetensors").size();
  return units;
}

// Kills the command when the codes of `least` units lie there. Returns how many do then.
int64_t kill_behind_units(const std::vector<std::string>& command, const std::string& partial, int64_t least) {
  Child child(command, partial + ".said");
  while (child.running() && units_in(partial) < least) ::usleep(500);
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait(), 128 + SIGKILL) << "it was not killed: " << real_io().read(partial + ".said");
  return units_in(partial);
}

using QuantizeBytesSlow = QuantizeBytes;

TEST_F(QuantizeBytesSlow, AnyThreadsAndKillsLeaveTheSameBytes) {
  constexpr int64_t kLayers = 5;
  write_random_model("deep", {.layers = kLayers, .width = 64, .heads = 2, .hidden = 128});
  std::string text;
  for (int i = 0; i < 4; ++i) text += real_io().read(trained() + "/text.txt");
  write("long.txt", text);
  using Words = std::vector<std::string>;
  for (const auto& [way, name] : {std::pair{Words{"gptq", "--type", "u3"}, std::string("gptq")},
                                  {Words{"gptq", "--type", "q4_0"}, "gptq.gguf"},
                                  {Words{"lcq", "--bits", "2"}, "lc2"},
                                  {Words{"lcq", "--bits", "3"}, "lc3"},
                                  {Words{"lcq", "--bits", "4"}, "lc4"},
                                  {Words{"lcq", "--bits", "2", "--reconstruction-steps", "2"}, "trained"}}) {
    SCOPED_TRACE(name);
    const auto command = [&](const std::string& out, const char* threads) {
      Words all = {TERN_PROGRAM, "quantize", root_ + "/deep", "--threads", threads, "--output", root_ + "/" + out};
      all.insert(all.end(), {"--data", root_ + "/long.txt", "--calibration-tokens", "1536", "--method"});
      all.insert(all.end(), way.begin(), way.end());
      return all;
    };
    const auto weights = [](const std::string& out) {
      return real_io().read(root_ + "/" + out + (out.ends_with(".gguf") ? "" : "/model.safetensors"));
    };
    for (const char* threads : {"1", "2", "3"})
      ASSERT_EQ(run_to_end(command(std::string(threads) + name, threads), root_), 0);
    EXPECT_TRUE(weights("2" + name) == weights("1" + name));
    EXPECT_TRUE(weights("3" + name) == weights("1" + name));
    // Killed twice: the second run begins behind the first one's units, which it leaves as they are.
    const std::string killed = "killed-" + name, partial = root_ + "/" + killed + ".partial";
    const int64_t before = kill_behind_units(command(killed, "2"), partial, 2);
    ASSERT_GE(before, 2);
    const auto written = std::filesystem::last_write_time(partial + "/unit-00001.safetensors");
    const int64_t after = kill_behind_units(command(killed, "1"), partial, before + 1);
    EXPECT_EQ(std::filesystem::last_write_time(partial + "/unit-00001.safetensors"), written);
    EXPECT_LE(after, 2 * kLayers)
        << "units were to be left: the embedding, attention and MLP of each layer are counted";
    EXPECT_FALSE(real_io().stat(root_ + "/" + killed));
    ASSERT_EQ(run_to_end(command(killed, "3"), root_), 0);
    EXPECT_TRUE(weights(killed) == weights("1" + name));
    EXPECT_FALSE(real_io().stat(partial));
  }
}

// Reconstruction changes rows' scales and tables of a unit, nothing else: of the first one, as others are coded behind what it made.
TEST_F(QuantizeBytes, ReconstructionChangesScalesAndTablesAlone) {
  const std::string of = "quantize one --method lcq --bits 2 --data text.txt --calibration-tokens 256 --output ";
  const Json plain = json(of + "plain"), trained = json(of + "reconstructed --reconstruction-steps 5");
  EXPECT_EQ(trained["bytes"], plain["bytes"]);
  const Safetensors a(root_ + "/plain/model.safetensors"), b(root_ + "/reconstructed/model.safetensors");
  int64_t changed = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    const TensorView t = a[n];
    const std::string name(t.name);
    if (name.find(".self_attn.") == std::string::npos) continue;
    const std::span<const std::byte> before = t.bytes, after = b.find(name)->bytes;
    ASSERT_EQ(before.size(), after.size());
    const bool rows = name.ends_with(".lc2"), levels = name.ends_with(".levels");
    const size_t width = rows ? static_cast<size_t>(t.shape[1]) : 1;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      ASSERT_TRUE(levels || (rows && i % width < 2)) << name << ", byte " << i;
      ++changed;
    }
  }
  EXPECT_GT(changed, 0);
  expect_refusal(2, "quantize one --method gptq --type u4 --data text.txt --reconstruction-steps 5 --output z",
                 {"--reconstruction-steps", "choose --method lcq"});
}

// A model whose rows are whole blocks of 256 has Q5_K and Q6_K in its mixtures, reconstructed or not, and tables in Q6_K.
TEST_F(QuantizeBytes, MixturesAndTablesHaveTypesOf256) {
  write_random_model("wide", {.layers = 2, .width = 256, .heads = 8, .hidden = 256});
  const std::string of =
      "quantize wide --method lcq --bits mixed --data text.txt --calibration-tokens 128 --table-type q6_k "
      "--sensitivity measures --target-bytes ";
  const Json all = json(of + "640KiB --output mixed"),
             steps = json(of + "640KiB --output mixed-steps --reconstruction-steps 2");
  EXPECT_EQ(all["mixture"], steps["mixture"]);
  EXPECT_EQ(all["bytes"], steps["bytes"]);
  for (const Json& matrix : all["mixture"]["matrices"])
    for (const char* type : {"LC2", "LC3", "LC4", "Q5_K", "Q6_K", "Q8_0"})
      EXPECT_TRUE(matrix["kl_divergence_alone"].contains(type)) << matrix;
  EXPECT_NEAR(all["tensor_bytes"].get<double>(), 640 * 1024, 0.01 * 640 * 1024);
  const std::string generate = "generate mixed --prompt 'Licensed' --max-tokens 8 --dtype f32 --temperature 0";
  EXPECT_EQ(json(generate + " --weights mapped")["samples"], json(generate + " --weights copied")["samples"]);
  EXPECT_TRUE(has(tern("inspect mixed"), "1 Q6_K") || has(tern("inspect mixed"), " Q6_K (6.5625")) << "the table";
}

// Rounding what a first rounding left.
struct SecondRounding {
  const char* type;
  double most;  // its error at most, in parts of the first one's; 0: the numbers stay, to the bit
};
constexpr SecondRounding kSecondRoundings[] = {
    // A scale is what the largest number says, which has the outermost code; a minimum has a code of its own.
    {"q8_0", 0},
    {"q5_1", 0},
    {"q5_0", 0},
    {"q4_1", 0},
    {"q4_0", 0},
    {"nf4", 0},
    // Scale and offset are searched anew, and found but for f32's last bits.
    {"u3", 1e-6},
    {"u2", 1e-6},
    // The search tries scales among which the first ones need not be.
    {"u4", 0.1},
    {"q6_k", 0.5},
    {"q5_k", 0.5},
    {"q4_k", 0.5},
    // Offsets are chosen for what codes say, not for the least error: as far again.
    {"nf4_1", 1.5},
};

TEST_F(QuantizeBytes, ASecondRoundingKeepsTheNumbersOfTypesWhoseScalesAreTheirLargestNumber) {
  for (const auto& [type, most] : kSecondRoundings)
    for (const std::string end : {"", ".gguf"}) {
      if (!end.empty() && type[0] != 'q') continue;
      SCOPED_TRACE(type + end);
      const std::string a = std::string("a-") + type, b = std::string("b-") + type;
      const std::string numbers = end.empty() ? "-directory" : "-gguf";
      const double first = json("quantize one --type " + std::string(type) + " --output " + a + end)["relative_error"];
      json("export " + a + end + " --dtype f32 --output " + a + numbers);
      const Json again = json(fmt::format("quantize {} --type {} --output {}", a + numbers, type, b + end));
      json("export " + b + end + " --dtype f32 --output " + b + numbers);
      const auto bits = [&](const std::string& of) {
        return real_io().read(root_ + "/" + of + numbers + "/model.safetensors");
      };
      const double second = again["relative_error"];
      EXPECT_GT(first, 0);
      EXPECT_LE(second, most * first);
      EXPECT_EQ(second == 0, most == 0) << second << " of " << first;
      EXPECT_EQ(bits(a) == bits(b), most == 0);
    }
}

// Where scales are the smallest that f16 has, and where a minimum is 10,000 times a step. Compared as numbers: of the
// first, zeros may change their sign.
TEST_F(QuantizeBytes, ASecondRoundingOfSmallAndOfShiftedNumbersKeepsTheirValues) {
  write_random_model("small", {.layers = 1, .width = 64, .heads = 2, .hidden = 64, .deviation = 1e-6});
  write_random_model("shifted", {.layers = 1, .width = 64, .heads = 2, .hidden = 64, .middle = 3000});
  for (const char* model : {"small", "shifted"})
    for (const char* type : {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0"}) {
      SCOPED_TRACE(std::string(model) + " " + type);
      const std::string once = fmt::format("{}-{}", model, type);
      EXPECT_GT(json(fmt::format("quantize {} --type {} --output {}", model, type, once))["relative_error"], 0);
      EXPECT_EQ(json(fmt::format("quantize {0} --type {1} --output {0}-again", once, type))["relative_error"], 0);
    }
}

}  // namespace
}  // namespace tern
