#include "formats/model_dir.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/gguf/write.h"

namespace tern {
namespace {

const std::string kConfig = R"({"model_type":"llama"})", kEmpty = safetensors_file("{}");

EnvironmentLookup environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto it = values.find(std::string(name));
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

/// A directory with these files.
struct Dir {
  TemporaryDirectory dir;
  explicit Dir(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) write_bytes(dir / name, text);
  }
};

testing::AssertionResult refuses(const std::map<std::string, std::string>& files, std::string_view says) {
  const Dir d(files);
  return throws(ErrorKind::bad_file, says, [&] { resolve_model(d.dir.path()); });
}

TEST(ModelDir, ListsWhatADirectoryHas) {
  const Dir d({{"config.json", kConfig},
               {"generation_config.json", "{}"},
               {"model.safetensors", kEmpty},
               {"tokenizer.json", "{}"},
               {"tokenizer_config.json", "{}"},
               {"README.md", ""},
               {"pytorch_model.bin", "x"}});
  const ModelDir m = resolve_model(d.dir.path());
  EXPECT_EQ(m.path, d.dir.path());
  EXPECT_EQ(m.config, d.dir / "config.json");
  EXPECT_EQ(m.generation_config, d.dir / "generation_config.json");
  EXPECT_EQ(m.weights, d.dir / "model.safetensors");
  EXPECT_EQ(m.tokenizer_files, (std::vector<std::string>{d.dir / "tokenizer.json", d.dir / "tokenizer_config.json"}));
  EXPECT_FALSE(m.bare_config);
  EXPECT_TRUE(m.notes.empty());
}

TEST(ModelDir, WeightsWithoutAConfigurationLackJustThat) {
  EXPECT_TRUE(refuses({{"model.safetensors", kEmpty}}, "no config.json beside model.safetensors; fetch config.json"));
  EXPECT_TRUE(refuses({{"model.safetensors.index.json", "{}"}}, "no config.json beside model.safetensors.index.json"));
  EXPECT_TRUE(refuses({{"other.safetensors", kEmpty}}, "other.safetensors is not under a name"));
}

TEST(ModelDir, AnAdapterBesideTheWeightsIsTold) {
  const Dir d({{"config.json", kConfig}, {"model.safetensors", kEmpty}, {"adapter_config.json", "{}"}});
  const ModelDir m = resolve_model(d.dir.path());
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_NE(m.notes[0].find("it is not applied"), std::string::npos) << m.notes[0];
}

TEST(ModelDir, AGgufFileOfAVocabularyAloneSaysWhoReadsIt) {
  const Dir d({});
  GgufMetadata metadata;
  metadata.add("general.architecture", std::string("phi3"));
  write_gguf(real_io(), d.dir / "vocabulary.gguf", metadata, {});
  EXPECT_TRUE(throws(ErrorKind::bad_file, "without weights, such as a vocabulary alone; tern tokenize",
                     [&] { resolve_model(d.dir / "vocabulary.gguf"); }));
}

TEST(ModelDir, ShardsMustAllBeThere) {
  std::map<std::string, std::string> files{
      {"config.json", kConfig},
      {"model.safetensors.index.json", R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})"},
      {"x.safetensors", kEmpty}};
  EXPECT_TRUE(refuses(files, "y.safetensors; the download is incomplete"));
  files["y.safetensors"] = kEmpty;
  const Dir d(files);
  EXPECT_EQ(resolve_model(d.dir.path()).weights, d.dir / "model.safetensors.index.json");
  write_bytes(d.dir / "model.safetensors", kEmpty);
  const ModelDir both = resolve_model(d.dir.path());
  EXPECT_EQ(both.weights, d.dir / "model.safetensors");
  EXPECT_EQ(both.notes.size(), 1u);
}

TEST(ModelDir, WhatTernDoesNotReadIsRefusedByName) {
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"pytorch_model.bin", "x"}},
                      "pytorch_model.bin is by its name a Python pickle"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"pytorch_model.bin", "x"}}, "save_pretrained"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"model.pt", "x"}}, "model.pt is by its name a Python pickle"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"model.ckpt", "x"}}, "model.ckpt is by its name a Python pickle"));
  EXPECT_TRUE(refuses({{"params.json", "{}"}, {"consolidated.00.pth", "x"}},
                      "consolidated.00.pth is by its name a Python pickle"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"model-q4_0.gguf", "x"}},
                      "model-q4_0.gguf is a GGUF model; give that file itself"));
  EXPECT_TRUE(refuses({{"model-q4_0.gguf", "x"}}, "is a GGUF model"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"model.onnx", "x"}}, "model.onnx is an ONNX graph"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"onnx/model.onnx", "x"}}, "is an ONNX graph"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"tf_model.h5", "x"}}, "TensorFlow or Flax"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"flax_model.msgpack", "x"}}, "TensorFlow or Flax"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"consolidated.safetensors", kEmpty}}, "expected model.safetensors"));
  EXPECT_TRUE(
      refuses({{"adapter_config.json", "{}"}, {"adapter_model.safetensors", kEmpty}}, "an adapter, not a whole model"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"training_args.bin", "x"}}, "a configuration without weights"));
  EXPECT_TRUE(refuses({{"config.json", R"({"model_type":"mamba"})"}}, "\"mamba\" is not a family tern reads"))
      << "fetching its weights would not help";
  EXPECT_TRUE(refuses({{"params.json", "{}"}}, "the makers' own format"));
  EXPECT_TRUE(refuses({{"notes.txt", ""}}, "no config.json among 1 files"));
  EXPECT_TRUE(refuses({{"model/config.json", kConfig}}, "the model of this run lies in"));
  EXPECT_TRUE(refuses({{"adapter/adapter_config.json", "{}"}}, "/adapter is the adapter of this run"));
  EXPECT_TRUE(refuses({{"gates.json", "{}"}, {"0-plays/adapter_config.json", "{}"}}, "reads one of its adapters: "));
  EXPECT_TRUE(
      refuses({{"config.json", R"({"quantization_config":{"quant_method":"aqlm"}})"}, {"model.safetensors", kEmpty}},
              "quantized by method \"aqlm\""));
  EXPECT_TRUE(
      refuses({{"config.json", R"({"quantization_config":{"quant_method":"fp8"}})"}, {"model.safetensors", kEmpty}},
              "make them bf16 once"));
  EXPECT_TRUE(
      refuses({{"config.json", kConfig}, {"quantize_config.json", "{}"}, {"model.safetensors", kEmpty}}, "GPTQ"));
  EXPECT_TRUE(refuses({{"config.json", kConfig}, {"quant_config.json", "{}"}, {"model.safetensors", kEmpty}}, "AWQ"));
  EXPECT_TRUE(refuses({{"config.json", "{"}, {"model.safetensors", kEmpty}}, "config.json"));
}

TEST(ModelDir, WhatOtherProgramsPackedIsFound) {
  for (const char* method : {"gptq", "awq", "bitsandbytes", "compressed-tensors"}) {
    const Dir d({{"config.json", R"({"quantization_config":{"quant_method":")" + std::string(method) + "\"}}"},
                 {"quantize_config.json", "{}"},
                 {"model.safetensors", kEmpty}});
    EXPECT_FALSE(resolve_model(d.dir.path(), {.environment = {}}).weights.empty()) << method;
  }
}

TEST(ModelDir, ABareConfigIsEnoughWhereWeightsAreNot) {
  const Dir d({{"config.json", kConfig}, {"tokenizer.json", "{}"}});
  for (const std::string& model : {d.dir.path(), d.dir / "config.json"}) {
    const ModelDir m = resolve_model(model, {.need_weights = false, .environment = {}});
    EXPECT_TRUE(m.bare_config);
    EXPECT_EQ(m.config, d.dir / "config.json");
    EXPECT_EQ(m.weights, "");
    EXPECT_EQ(m.tokenizer_files.size(), 1u);
    EXPECT_TRUE(throws(ErrorKind::bad_file, "without weights", [&] { resolve_model(model); }));
  }
  write_bytes(d.dir / "pytorch_model.bin", "x");
  EXPECT_EQ(resolve_model(d.dir.path(), {.need_weights = false, .environment = {}}).notes.size(), 1u);
}

TEST(ModelDir, AFileThatIsNoConfigIsRefused) {
  const Dir d({{"m.gguf", "x"}, {"m.bin", "x"}, {"m.txt", "x"}, {"model.safetensors", kEmpty}});
  EXPECT_TRUE(throws(ErrorKind::bad_file, "m.gguf: ", [&] { resolve_model(d.dir / "m.gguf"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "a Python pickle", [&] { resolve_model(d.dir / "m.bin"); }));
  EXPECT_TRUE(
      throws(ErrorKind::bad_file, "neither a directory nor a config.json", [&] { resolve_model(d.dir / "m.txt"); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "give their directory", [&] { resolve_model(d.dir / "model.safetensors"); }));
}

TEST(ModelDir, FindsANameInTheCacheAndNeverDownloads) {
  const std::string snapshot = "hub/models--org--name/snapshots/0123abcd/";
  const Dir d({{"hub/models--org--name/refs/main", "0123abcd\n"},
               {snapshot + "config.json", kConfig},
               {snapshot + "model.safetensors", kEmpty},
               {"huggingface/hub/models--gpt2/refs/main", "ff"},
               {"huggingface/hub/models--gpt2/snapshots/ff/config.json", kConfig}});
  const auto resolve = [&](const std::string& name, std::map<std::string, std::string> env) {
    return resolve_model(name, {.need_weights = false, .environment = environment(std::move(env))});
  };
  const std::string hub = d.dir / "hub", want = d.dir / (snapshot + "config.json");
  EXPECT_EQ(resolve("org/name", {{"HF_HUB_CACHE", hub}, {"HF_HOME", "/nowhere"}}).config, want);
  EXPECT_EQ(resolve("org/name", {{"HUGGINGFACE_HUB_CACHE", hub}}).config, want);
  EXPECT_EQ(resolve("org/name", {{"HF_HOME", d.dir.path()}}).config, want);
  EXPECT_EQ(resolve("org/name", {{"HF_HOME", "~"}, {"HOME", d.dir.path()}}).config, want);
  EXPECT_EQ(resolve("gpt2", {{"XDG_CACHE_HOME", d.dir.path()}}).config,
            d.dir / "huggingface/hub/models--gpt2/snapshots/ff/config.json");

  const auto refused = [&](const std::string& name, std::string_view says) {
    return throws(ErrorKind::bad_file, says, [&] { resolve(name, {{"HF_HUB_CACHE", hub}}); });
  };
  EXPECT_TRUE(refused("org/other-model", "run `hf download org/other-model`"));
  EXPECT_TRUE(refused("org/nmae", "did you mean 'org/name'?"));
  EXPECT_TRUE(refused("/no/such/dir", "no such directory or file"));
  EXPECT_TRUE(refused("./nothing", "no such directory or file"));
  EXPECT_TRUE(refused("../../no/such/place", "no such directory or file"));
  EXPECT_TRUE(refused("a/b/c", "no such directory or file"));
  EXPECT_TRUE(refused("org/name..", "no such directory or file"));
  EXPECT_TRUE(refused("org--x/name", "no such directory or file"));
  EXPECT_TRUE(throws(ErrorKind::usage, "empty", [&] { resolve("", {}); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "`hf download gpt2` completes it", [&] {
    resolve_model("gpt2", {.environment = environment({{"XDG_CACHE_HOME", d.dir.path()}})});
  }));

  write_bytes(d.dir / "hub/models--org--name/refs/main", "../../../etc");
  EXPECT_TRUE(refused("org/name", "expected a revision's hash"));
  write_bytes(d.dir / "hub/models--org--name/refs/main", "beef");
  EXPECT_TRUE(refused("org/name", "names revision beef"));
  std::filesystem::remove(d.dir / "hub/models--org--name/refs/main");
  EXPECT_TRUE(refused("org/name", "give one of these directories:"));
}

}  // namespace
}  // namespace tern
