// tern adapt as a person uses it: an adapter is trained, resumed, used, merged; what cannot be is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/source_dir_testing.h"
#include "formats/safetensors/safetensors.h"
#include "tests/e2e/adapt_testing.h"

namespace tern {
namespace {

TEST_F(Adapt, LearnsInTheBytesForetoldAndMergesToTheSameLosses) {
  const Json run = json(train("run", "--rank 4 --alpha 8 --steps 12"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  const int64_t foretold = run["predicted_bytes"]["tensors"];
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), foretold);
  EXPECT_LT(8 * run["predicted_bytes"]["optimizer"].get<int64_t>(), run["predicted_bytes"]["weights"].get<int64_t>())
      << "of the adapter alone";
  EXPECT_TRUE(std::filesystem::exists(root_ + "/run/adapter/adapter_config.json"));
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double before = loss_of(eval), after = loss_of(eval + " --adapter run/adapter");
  EXPECT_LT(after, before - 0.3);
  const Json merged = json("adapt merge " + kNovels + " run/adapter --dtype f32 --output merged");
  EXPECT_LT(merged["relative_error"].get<double>(), 1e-4);
  EXPECT_NEAR(loss_of("eval merged --data log.txt --dtype f32"), after, 1e-5);
  EXPECT_EQ(json("generate " + kNovels +
                 " --adapter run/adapter --prompt 'Log of' --max-tokens 8 --temperature 0 --dtype f32")["text"],
            json("generate merged --prompt 'Log of' --max-tokens 8 --temperature 0")["text"]);
  const Json inspected = json("inspect run/adapter");
  EXPECT_EQ(inspected["rank"], 4);
  EXPECT_EQ(inspected["finite"], true);
  EXPECT_GT(inspected["numbers"], 0);
  EXPECT_NE(tern("inspect run/adapter").text.find("LoRA of rank 4, scale 8 / rank"), std::string::npos);
  expect_refusal(4, eval + " --adapter run", {"as run/adapter is"});
}

TEST_F(Adapt, AStoppedRunGoesOnToTheSameBits) {
  char letter = 'a';
  for (const char* more :
       {"", " --dtype bf16 --init gaussian --method rslora --target q_proj,v_proj",
        " --method dora --adapter-dropout 0.2", " --method dora --dtype bf16", " --init pissa --target v_proj",
        " --init olora --method rslora --dtype bf16 --target v_proj", " --init orthogonal",
        " --method irqlora --adapter-dropout 0.2 --dtype bf16",
        " --target v_proj --save-modules embed_tokens,lm_head,model.norm",
        " --target v_proj --dtype bf16 --save-modules embed_tokens,lm_head,model.norm"}) {
    const std::string name(1, letter++), rest = std::string("--rank 2") + more;
    json(train(name + "-whole", rest + " --steps 5"));
    json(train(name + "-parts", rest + " --steps 2"));
    json(train(name + "-parts", rest + " --steps 5"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_model.safetensors"),
              file(name + "-whole/adapter/adapter_model.safetensors"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_config.json"), file(name + "-whole/adapter/adapter_config.json"));
  }
  expect_refusal(2, train("a-parts", "--rank 3 --steps 6"), {"--rank", "2 in the checkpoint"});
}

// The table of tokens with the last norm, trained as a whole beside adapters.
TEST_F(Adapt, TrainsTheTableAndTheHeadInTheBytesForetold) {
  const std::string modules = " --save-modules embed_tokens,lm_head,model.norm ";
  const Json run = json(train("whole", "--rank 2 --steps 8" + modules)),
             plain = json(train("ranks", "--rank 2 --steps 8"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  const auto states = [](const Json& r) { return r["predicted_bytes"]["optimizer"].get<int64_t>(); };
  EXPECT_GE(states(run) - states(plain), 2 * 4 * (4096 * 256 + 256));
  EXPECT_LE(states(run) - states(plain), 3 * 4 * (4096 * 256 + 256));
  EXPECT_EQ(parse_json(file("whole/adapter/adapter_config.json"), "config")["modules_to_save"].size(), 3u);
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double before = loss_of(eval), after = loss_of(eval + " --adapter whole/adapter");
  EXPECT_LT(after, before - 0.3);
  EXPECT_NE(after, loss_of(eval + " --adapter ranks/adapter"));
  json("adapt merge " + kNovels + " whole/adapter --dtype f32 --output whole-merged");
  EXPECT_NEAR(loss_of("eval whole-merged --data log.txt --dtype f32"), after, 1e-5);
  expect_refusal(2, train("x", "--save-modules embed_tokens"), {"--save-modules embed_tokens", "lm_head"});
  expect_refusal(2, train("x", "--init pissa" + modules), {"--save-modules", "--init pissa"});
  expect_refusal(2, "adapt " + kNovels + " --method dpo --data pairs.jsonl --output x" + modules, {"--method dpo"});
  expect_refusal(2, "adapt " + kNovels + " --data log.txt --output x --begin whole/adapter", {"whole"});
}

// DoRA and dropout: the bytes foretold, the same bits with recomputation, merged weights that give the adapter's losses, and beside
// codes what it learns beside their numbers.
TEST_F(Adapt, LearnsLengthsOfRowsAndLeavesInputsOut) {
  const std::string rest =
      "--method dora --rank 4 --steps 8 --adapter-dropout 0.1 --valid-data log.txt --eval-every 4 ";
  const Json run = json(train("dora", rest));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  json(train("dora-again", rest + "--recompute full"));
  EXPECT_EQ(file("dora/adapter/adapter_model.safetensors"), file("dora-again/adapter/adapter_model.safetensors"));
  json(train("dora-dry", "--method dora --rank 4 --steps 8"));
  EXPECT_NE(file("dora/adapter/adapter_model.safetensors"), file("dora-dry/adapter/adapter_model.safetensors"));
  const Json config = parse_json(file("dora/adapter/adapter_config.json"), "config");
  EXPECT_EQ(config["use_dora"], true);
  EXPECT_EQ(config["lora_dropout"], 0.1);
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double after = loss_of(eval + " --adapter dora/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.2);
  json("adapt merge " + kNovels + " dora/adapter --dtype f32 --output dora-merged");
  EXPECT_NEAR(loss_of("eval dora-merged --data log.txt --dtype f32 --max-tokens 500"), after, 1e-5);
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output dora.gguf");
  json("export dora.gguf --dtype f32 --output dora-numbers");
  const std::string beside = " --data log.txt --seq 32 --batch 4 --steps 3 --method dora --multiply exact --output ";
  EXPECT_EQ(json("adapt dora.gguf" + beside + "dora-coded")["byte_mismatches"], 0);
  json("adapt dora-numbers" + beside + "dora-decoded");
  EXPECT_EQ(file("dora-coded/adapter/adapter_model.safetensors"),
            file("dora-decoded/adapter/adapter_model.safetensors"));
  expect_refusal(2, "adapt merge dora.gguf dora-coded/adapter --offsets --output no.gguf", {"DoRA"});
  expect_refusal(2, train("x", "--adapter-dropout 1"), {"--adapter-dropout"});
}

// Its file serves the model as it lies, though it learned beside what was left of it.
TEST_F(Adapt, BeginsWithAPartOfTheWeights) {
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double before = loss_of(eval);
  for (const std::string init : {"pissa", "olora"}) {
    const std::string begin = "--init " + init + " --rank 4 --target v_proj,o_proj ";
    json("adapt " + kNovels + " --data log.txt --seq 32 --batch 4 --schedule constant --warmup-steps 0 --steps 1 " +
         begin + "--learning-rate 1e-12 --output " + init + "-begun");
    EXPECT_NEAR(loss_of(eval + " --adapter " + init + "-begun/adapter"), before, 1e-4);
    const Json run = json(train(init, begin + "--steps 12"));
    EXPECT_EQ(run["byte_mismatches"], 0);
    EXPECT_EQ(parse_json(file(init + "/adapter/adapter_config.json"), "config")["r"], 8);
    const double after = loss_of(eval + " --adapter " + init + "/adapter");
    EXPECT_LT(after, before - 0.3);
    json("adapt merge " + kNovels + " " + init + "/adapter --dtype f32 --output " + init + "-merged");
    EXPECT_NEAR(loss_of("eval " + init + "-merged --data log.txt --dtype f32 --max-tokens 500"), after, 1e-5);
  }
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output begun.gguf");
  expect_refusal(2, "adapt begun.gguf --data log.txt --output x --init pissa --seq 32", {"--init pissa", "codes"});
  expect_refusal(2, train("x", "--init olora --method dora"), {"--init olora", "dora"});
  expect_refusal(2, train("x", "--init orthogonal --rank 3"), {"--rank: 3"});
  expect_refusal(2, train("x", "--init pissa --rank 300"), {"--rank 300"});
}

TEST_F(Adapt, LearnsFromPairsOfAnswers) {
  const std::string pairs = source_dir() + "/tests/golden/dpo/pairs.jsonl";
  const auto on = [&](const std::string& output, const std::string& rest) {
    return "adapt " + kNovels + " --data " + pairs + " --output " + output +
           " --method dpo --seq 48 --batch 4 --rank 4 --schedule constant --warmup-steps 0 --learning-rate 1e-3 " +
           rest;
  };
  const Json run = json(on("dpo", "--steps 8 --eval-every 4 --valid-data " + pairs));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  EXPECT_LT(run["held_out"]["loss"].get<double>(), 0.6);
  EXPECT_GE(run["held_out"]["accuracy"].get<double>(), 0.9);
  json(on("dpo-parts", "--steps 1 --adapter-dropout 0.1"));
  json(on("dpo-parts", "--steps 3 --adapter-dropout 0.1"));
  json(on("dpo-whole", "--steps 3 --adapter-dropout 0.1"));
  EXPECT_EQ(file("dpo-parts/adapter/adapter_model.safetensors"), file("dpo-whole/adapter/adapter_model.safetensors"));
  expect_refusal(2, "adapt " + kNovels + " --data " + pairs + " --output x --method dpo --seq 48 --batch 5",
                 {"--batch: 5"});
  expect_refusal(2, on("x", "--micro-batch 2"), {"--micro-batch"});
  expect_refusal(2, on("x", "--init pissa"), {"--init pissa"});
  expect_refusal(2, train("x", "--dpo-beta 0.2"), {"--dpo-beta"});
  expect_refusal(4, train("x", "--method dpo"), {"log.txt", "no pair"});
  expect_refusal(4, "adapt " + kNovels + " --data " + pairs + " --output x --seq 48", {"pairs.jsonl: line 1", "dpo"});
}

// Q-BLoRA: as many numbers as LoRA of half the rank, in the bytes foretold; its files are ordinary LoRA, in use and merged.
TEST_F(Adapt, BalancesRankAgainstInputsAndOutputs) {
  const Json lora = json(train("of-lora", "--rank 4 --steps 1")),
             run = json(train("balanced", "--method qblora --rank 8 --alpha 16 --steps 12"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_EQ(run["predicted_bytes"]["gradients"], lora["predicted_bytes"]["gradients"]);
  EXPECT_EQ(run["predicted_bytes"]["optimizer"], lora["predicted_bytes"]["optimizer"]);
  const Json config = parse_json(file("balanced/adapter/adapter_config.json"), "config");
  EXPECT_EQ(config["r"], 8);
  EXPECT_EQ(config["lora_alpha"], 16);
  const Safetensors files(root_ + "/balanced/adapter/adapter_model.safetensors");
  ASSERT_GT(files.size(), 0u);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& t = files[i];
    const bool is_a = t.name.find("lora_A") != std::string_view::npos;
    std::vector<float> x(t.bytes.size() / sizeof(float));
    std::memcpy(x.data(), t.bytes.data(), t.bytes.size());
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_EQ(x[k], is_a ? x[k / 2 * 2] : x[k / 8 / 2 * 16 + k % 8]) << t.name << " " << k;
  }
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double after = loss_of(eval + " --adapter balanced/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.3);
  json("adapt merge " + kNovels + " balanced/adapter --dtype f32 --output balanced-merged");
  EXPECT_NEAR(loss_of("eval balanced-merged --data log.txt --dtype f32"), after, 1e-5);
  const std::string again = "--method qblora --rank 8 --alpha 16 --steps 13";
  expect_refusal(2, train("balanced", again + " --pool 4"), {"--pool: 2 in the checkpoint, 4 now"});
  expect_refusal(2, train("balanced", "--rank 8 --alpha 16 --steps 13"), {"--method: qblora in the checkpoint"});
  json(train("balanced", again));
  expect_refusal(2, train("no", "--pool 2"), {"--pool", "--method lora", "qblora"});
  expect_refusal(2, train("no", "--method qalora --repeat 2"), {"--repeat", "--method qalora", "qablora"});
  expect_refusal(2, train("no", "--method qblora --repeat 7"), {"--repeat 7", "outputs", "--target"});
  expect_refusal(2, train("no", "--method qablora --pool 7"), {"--pool 7", "inputs", "--target"});
  expect_refusal(2, train("no", "--method qablora --save-modules embed_tokens"), {"--save-modules", "qablora"});
}

// IR-QLoRA: LoRA with two numbers more for each matrix, in the bytes foretold; its files are ordinary LoRA, in use and merged.
TEST_F(Adapt, ConnectsElasticallyAndWritesOrdinaryAdapters) {
  json("quantize " + kNovels + " --type nf4_1 --output base");
  const std::string adapt =
      "adapt base --data log.txt --dtype f32 --seq 32 --batch 4 --rank 4 --schedule constant "
      "--warmup-steps 0 --learning-rate 3e-3 --output ";
  const Json lora = json(adapt + "of-lora --steps 1"), run = json(adapt + "elastic --method irqlora --steps 12");
  EXPECT_EQ(run["byte_mismatches"], 0);
  const Safetensors files(root_ + "/elastic/adapter/adapter_model.safetensors");
  const auto more = static_cast<int64_t>(files.size());  // A and B in the files, two shares in the run
  EXPECT_EQ(run["predicted_bytes"]["gradients"], lora["predicted_bytes"]["gradients"].get<int64_t>() + 4 * more);
  EXPECT_EQ(run["predicted_bytes"]["optimizer"], lora["predicted_bytes"]["optimizer"].get<int64_t>() + 8 * more);
  const std::string eval = "eval base --data log.txt --dtype f32";
  const double after = loss_of(eval + " --adapter elastic/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.3);
  json("adapt merge base elastic/adapter --dtype f32 --output elastic-merged");
  EXPECT_NEAR(loss_of("eval elastic-merged --data log.txt --dtype f32"), after, 1e-5);
  expect_refusal(2, adapt + "elastic --steps 13", {"--method: irqlora in the checkpoint"});
  expect_refusal(2, adapt + "no --method irqlora --pool 2", {"--pool", "--method irqlora", "qblora"});
  expect_refusal(2, adapt + "no --method irqlora --init pissa", {"--init pissa", "irqlora"});
}

// LoRA+: at the first step B's gradient does not know of the ratio, A's is zero, and plain descent is linear in the rate.
TEST_F(Adapt, BLearnsAtItsOwnRate) {
  const std::string once = "--rank 2 --steps 1 --optimizer sgd --momentum 0 --weight-decay 0";
  json(train("rate-1", once));
  json(train("rate-8", once + " --lora-plus-ratio 8"));
  const Safetensors one(root_ + "/rate-1/adapter/adapter_model.safetensors"),
      eight(root_ + "/rate-8/adapter/adapter_model.safetensors");
  ASSERT_GT(one.size(), 0u);
  double largest = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const double factor = one[i].name.find("lora_B") == std::string_view::npos ? 1 : 8;
    std::vector<float> x(one[i].bytes.size() / sizeof(float)), y(x.size());
    std::memcpy(x.data(), one[i].bytes.data(), one[i].bytes.size());
    std::memcpy(y.data(), eight[i].bytes.data(), eight[i].bytes.size());
    for (size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(factor * static_cast<double>(x[k]), static_cast<double>(y[k])) << one[i].name;
      if (factor > 1) largest = std::max(largest, std::abs(static_cast<double>(x[k])));
    }
  }
  EXPECT_GT(largest, 0) << "nothing was learned";
  expect_refusal(2, train("rate-8", once), {"lora-plus-ratio"});
  expect_refusal(2, train("x", "--lora-plus-ratio 0"), {"--lora-plus-ratio"});
}

// The sum of two adapters by factors beside each other, by singular values, and as merged weights.
TEST_F(Adapt, CombinesAdaptersToOne) {
  json(train("first", "--rank 2 --steps 4"));
  json(train("second", "--rank 3 --steps 4 --seed 2 --target q_proj,down_proj"));
  const std::string both = "adapt combine --adapter first/adapter --adapter second/adapter ";
  const Json cat = json(both + "--shares 0.75,0.5 --output cat");
  EXPECT_EQ(cat["rank"], 5);
  EXPECT_LE(cat["norm"].get<double>(), cat["norms"][0].get<double>() + cat["norms"][1].get<double>());
  json(both + "--shares 0.75,0.5 --method svd --rank 5 --output svd");
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double sum = loss_of(eval + " --adapter cat");
  EXPECT_LT(sum, loss_of(eval) - 0.1);
  EXPECT_NEAR(loss_of(eval + " --adapter svd"), sum, 1e-5);
  json("adapt merge " + kNovels + " cat --dtype f32 --output cat-merged");
  EXPECT_NEAR(loss_of("eval cat-merged --data log.txt --dtype f32 --max-tokens 500"), sum, 1e-5);
  for (const std::string method : {"ties_svd --density 0.5", "dare_linear_svd --density 0.5 --seed 3", "opcm"}) {
    const std::string out = method.substr(0, method.find(' '));
    json(both + "--method " + method + " --output " + out);
    EXPECT_LT(loss_of(eval + " --adapter " + out), loss_of(eval)) << method;
  }
  expect_refusal(2, both + "--method ties --density 0.5 --output no", {"rank 2", "3", "svd"});
  expect_refusal(2, both + "--method ties --output no", {"--density"});
  expect_refusal(2, both + "--density 0.5 --output no", {"--density", "cat"});
  expect_refusal(2, both + "--shares 1 --output no", {"--shares", "2 adapters"});
  expect_refusal(2, both + "--output cat", {"cat"});
  expect_refusal(2, "adapt combine first/adapter second/adapter --output no", {"first/adapter", "--adapter a/adapter"});
  expect_refusal(4, "adapt combine --adapter nowhere --output no", {"nowhere"});
}

// Modules that an adapter changes as a whole: merged they are a model's, with a head of its own where it was the table.
TEST_F(Adapt, MergesModulesThatAnAdapterChangesAsAWhole) {
  const std::string golden = source_dir() + "/tests/golden/", gpt2 = golden + "models/gpt2";
  json("adapt merge " + gpt2 + " " + golden + "adapters/tables_tied --output untied");
  EXPECT_EQ(parse_json(file("untied/config.json"), "config.json")["tie_word_embeddings"], false);
  const Safetensors merged(root_ + "/untied/model.safetensors"), was(gpt2 + "/model.safetensors");
  const auto same = [](const TensorView& a, const TensorView& b) { return std::ranges::equal(a.bytes, b.bytes); };
  EXPECT_TRUE(same(merged.get("lm_head.weight"), was.get("transformer.wte.weight")));
  EXPECT_FALSE(same(merged.get("transformer.wte.weight"), was.get("transformer.wte.weight")));
  const std::string llama = golden + "models/llama", saved = golden + "adapters/saved";
  json("adapt merge " + llama + " " + saved + " --output whole");
  const Safetensors whole(root_ + "/whole/model.safetensors"), adapter(saved + "/adapter_model.safetensors");
  EXPECT_TRUE(same(whole.get("lm_head.weight"), adapter.get("base_model.model.lm_head.weight")));
  expect_refusal(2, "adapt merge " + llama + " " + saved + " --offsets --output no", {"embed_tokens", "--offsets"});
  expect_refusal(4, "adapt combine --adapter " + saved + " --adapter " + saved + " --output no", {"modules_to_save"});
  expect_refusal(2, "adapt " + llama + " --begin " + saved + " --data log.txt --seq 8 --output no", {"embed_tokens"});
}

TEST_F(Adapt, RefusesByName) {
  expect_refusal(2, train("x", "--target q_proj,nothing"), {"--target nothing", "q_proj"});
  expect_refusal(2, train("x", "--target 'q_proj, nothing'"), {"--target nothing", "q_proj"});
  expect_refusal(2, train("x", "--target all-linear,q_proj"), {"--target"});
  expect_refusal(4, "generate " + kNovels + " --prompt x --adapter nowhere", {"nowhere", "adapter_config.json"});
  expect_refusal(2, "adapt merge " + kNovels + " run/adapter", {"--output"});
}

}  // namespace
}  // namespace tern
