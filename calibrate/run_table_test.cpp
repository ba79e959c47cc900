#include "calibrate/run_table.h"

#include "formats/mutations_testing.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Columns as vTrain's tables name them; sizes and times are made up.
constexpr const char* kTable =
    "Parameters (billion),# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
    "3.6,64,512,8,3072,32,30,2048,1,64,1,1234.5\n"
    "39.1,512,1536,4,8192,64,48,2048,8,16,4,14000\n";
constexpr const char* kNamed =
    "source,model,gpus,global batch,micro batch,sequence length,tensor parallelism,context parallelism,"
    "pipeline parallelism,virtual stages,recompute,zero,dtype,products,tokens/s/gpu,use\r\n"
    "\"a page, \"\"quoted\"\"\",llama-3-70b,64,256,1,8192,4,1,8,5,none,1,bf16,8-bit,1639,score\r\n\r\n";

std::string failure_of(const std::string& csv) {
  try {
    parse_runs(csv, "t.csv");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "read";
}

TEST(RunTable, ReadsThePublishedColumns) {
  const auto runs = parse_runs(kTable, "t.csv");
  ASSERT_EQ(runs.size(), 2u);
  const PublishedRun& r = runs[1];
  EXPECT_EQ(r.line, 3);
  EXPECT_EQ(r.width, 8192);
  EXPECT_EQ(r.heads, 64);
  EXPECT_EQ(r.layers, 48);
  EXPECT_EQ(r.vocabulary, 51200);
  EXPECT_EQ(to_string(r.choice), "tp 8, dp 16, pp 4 1f1b, micro-batch 4 × 24");
  EXPECT_EQ(r.strategy.recompute, Recompute::full);
  EXPECT_EQ(r.job.dtype, DType::f16);
  EXPECT_EQ(r.job.gradients, DType::f16);
  EXPECT_DOUBLE_EQ(r.seconds, 14.0);
  EXPECT_DOUBLE_EQ(runs[0].seconds, 1.2345);
  EXPECT_EQ(runs[0].devices(), 64);
}

TEST(RunTable, ReadsNamedModelsQuotesAndTokensPerSecond) {
  const auto runs = parse_runs(kNamed, "t.csv", {.vocabulary = 7, .dtype = DType::f16});
  ASSERT_EQ(runs.size(), 1u);
  const PublishedRun& r = runs[0];
  EXPECT_EQ(r.source, "a page, \"quoted\"");
  EXPECT_EQ(r.model, "llama-3-70b");
  EXPECT_EQ(r.choice.mesh.data, 2);  // what is left of 64
  EXPECT_EQ(r.choice.schedule, PipelineSchedule::interleaved);
  EXPECT_EQ(r.choice.chunks_per_stage, 5);
  EXPECT_EQ(r.choice.num_micro, 128);
  EXPECT_EQ(r.strategy, (LayerStrategy{.zero = 1}));
  EXPECT_EQ(r.job.dtype, DType::bf16);
  EXPECT_EQ(r.job.gradients, DType::f32);
  EXPECT_EQ(r.traits.product_rate, 2);
  EXPECT_EQ(r.use, RunUse::score);
  EXPECT_NEAR(r.seconds, 256.0 * 8192 / (1639.0 * 64), 1e-9);
}

TEST(RunTable, ReadsHowExpertsAreSpread) {
  const std::string header = "model,gpus,global batch,sequence length,tensor parallelism,expert parallelism,";
  const auto runs = parse_runs(header +
                                   "expert tensor parallelism\nmixtral-8x7b,16,16,1024,2,8,\n"
                                   "mixtral-8x7b,16,16,1024,2,4,2\nllama-2-7b,16,16,1024,2,,\n",
                               "t.csv");
  EXPECT_EQ(to_string(runs[0].choice), "tp 2, ep 8 × 1, dp 8, pp 1, micro-batch 1 × 2");
  EXPECT_EQ(runs[1].choice.mesh.expert_tensor, 2);
  EXPECT_TRUE(runs[0].experts_stated && runs[1].experts_stated);
  EXPECT_FALSE(runs[2].experts_stated);
}

TEST(RunTable, ReadsWhatAFrameworkMakesAgainHidesAndSums) {
  const std::string header =
      "gpus,global batch,hidden size,attention heads,key/value heads,layers,sequence length,tensor parallelism,"
      "recompute,sequence parallelism,tensor overlap,gradient sums,weight gathers,context exchange,"
      "dtype,gradient dtype\n";
  const auto runs = parse_runs(header +
                                   "2,2,1024,16,4,2,64,2,Scores,off,gradients,apart,beside,ring,bf16,bf16\n"
                                   "2,2,1024,16,,2,64,2,operations,on,on,in products,before,gather,bf16,\n"
                                   "2,2,1024,16,16,2,64,2,second blocks,,,,,,,\n2,2,1024,16,,2,64,2,full,,off,,,,,\n",
                               "t.csv");
  EXPECT_EQ(runs[0].kv_heads, 4);
  EXPECT_EQ(runs[0].part, PartRecompute::scores);
  EXPECT_EQ(runs[1].part, PartRecompute::operations);
  EXPECT_EQ(runs[2].part, PartRecompute::second_blocks);
  EXPECT_EQ(runs[3].part, PartRecompute::none);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(runs[i].strategy.recompute, Recompute::none);
  EXPECT_EQ(runs[3].strategy.recompute, Recompute::full);
  EXPECT_TRUE(!runs[0].traits.sequence_parallel && runs[0].traits.hides_input_gradient_sums &&
              !runs[0].job.tensor_overlap);
  EXPECT_TRUE(runs[1].traits.sequence_parallel && !runs[1].traits.hides_input_gradient_sums &&
              runs[1].job.tensor_overlap);
  EXPECT_TRUE(runs[2].traits.sequence_parallel && !runs[2].traits.hides_input_gradient_sums &&
              !runs[2].job.tensor_overlap);
  EXPECT_EQ(runs[0].traits.sums, GradientSums::apart);
  EXPECT_EQ(runs[1].traits.sums, GradientSums::in_products);
  EXPECT_EQ(runs[2].traits.sums, GradientSums::passes);
  EXPECT_EQ(runs[0].job.gradients, DType::bf16);
  EXPECT_EQ(runs[1].job.gradients, DType::f32);
  EXPECT_EQ(runs[2].job.gradients, DType::f16);
  EXPECT_TRUE(runs[0].traits.gathers_weights_beside && !runs[0].traits.gathers_context);
  EXPECT_TRUE(!runs[1].traits.gathers_weights_beside && runs[1].traits.gathers_context);
  EXPECT_TRUE(!runs[2].traits.gathers_weights_beside && !runs[2].traits.gathers_context);
  EXPECT_EQ(runs[1].kv_heads, 16);
  const auto row = [&](const std::string& cells) { return failure_of(header + "2,2,1024,16," + cells + ",,\n"); };
  EXPECT_NE(row("5,2,64,2,none,,,,,").find("t.csv:2: key/value heads: 5 do not divide 16 heads"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,score,,,,,").find("recompute: 'score' is none of"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,score,,,,,").find("did you mean 'scores'"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,none,no,,,,").find("sequence parallelism: 'no' is none of on, off"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,none,,half,,,").find("tensor overlap: 'half' is none of"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,none,,,fused,,").find("gradient sums: 'fused' is none of"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,none,,,,late,").find("weight gathers: 'late' is none of before, beside"), std::string::npos);
  EXPECT_NE(row("4,2,64,2,none,,,,,tree").find("context exchange: 'tree' is none of ring, gather"), std::string::npos);
}

TEST(RunTable, SaysWhatIsWrongAndWhere) {
  const std::string header =
      "gpus,global batch,micro batch,hidden size,attention heads,layers,sequence length,tensor parallelism,iteration "
      "time (ms)\n";
  const auto row = [&](const std::string& cells) { return failure_of(header + cells + "\n"); };
  EXPECT_EQ(row("8,16,1,1024,16,2,1024,2,5"), "read");
  EXPECT_NE(row("8,16,1,1024,16,2,1024,x,5").find("t.csv:2: tensor parallelism: 'x' is no number"), std::string::npos);
  EXPECT_NE(row("8,16,1,1024,16,2,1024,3,5").find("t.csv:2: gpus: 8, but tensor 3"), std::string::npos);
  EXPECT_NE(row("8,17,1,1024,16,2,1024,2,5").find("global batch: 17 is no multiple"), std::string::npos);
  EXPECT_NE(row("8,16,1,1000,16,2,1024,2,5").find("attention heads: 16 do not divide"), std::string::npos);
  EXPECT_NE(row("8,16,1,1024,16,2,1024,2").find("8 cells, the header names 9"), std::string::npos);
  EXPECT_NE(row("8,16,1,1024,16,2,1024,2,nan").find("is no number"), std::string::npos);
  EXPECT_NE(row("8,16,1.5,1024,16,2,1024,2,5").find("1.5 is not whole"), std::string::npos);
  EXPECT_NE(row("8,16,1,1024,16,100000,1024,2,5").find("layers: 100000, expected 1 to 4096"), std::string::npos);
  EXPECT_NE(row("8,16,1,1024,16,2,1024,2,\"5").find("a quote that does not end"), std::string::npos);
  EXPECT_NE(failure_of("gpus,globl batch\n1,2\n").find("did you mean 'global batch'"), std::string::npos);
  EXPECT_NE(failure_of("gpus,gpus\n1,2\n").find("two columns 'gpus'"), std::string::npos);
  EXPECT_EQ(failure_of("\xEF\xBB\xBF" + header + "8,16,1,1024,16,2,1024,2,5\n"), "read");  // a byte-order mark
  const std::string columns = "gpus,global batch,model,sequence length,pipeline parallelism,schedule,";
  const auto model = [&](const std::string& column, const std::string& cells) {
    return failure_of(columns + column + "\n8,16,llama-2-7b,1024," + cells + "\n");
  };
  EXPECT_EQ(model("virtual stages", "2,,4"), "read");
  EXPECT_EQ(model("virtual stages", "1,gpipe,1"), "read");
  EXPECT_NE(model("virtual stages", "1,,4").find("virtual stages: 4 chunks on each stage of a pipeline of one"),
            std::string::npos);
  EXPECT_EQ(model("hidden size", "1,,"), "read");
  for (const char* size : {"hidden size", "attention heads", "key/value heads", "layers", "vocabulary"})
    EXPECT_NE(model(size, "1,,64").find(std::string(size) + ": given beside model 'llama-2-7b'"), std::string::npos)
        << size;
  std::string many = header;
  for (int i = 0; i < 16385; ++i) many += "8,16,1,1024,16,2,1024,2,5\n";
  EXPECT_NE(failure_of(many).find("t.csv:16386: more than 16384 rows"), std::string::npos);
  EXPECT_NE(failure_of("").find("no rows"), std::string::npos);
  EXPECT_NE(failure_of(header).find("no rows"), std::string::npos);
}

TEST(RunTable, MutatedTablesAreReadOrRefused) {
  survive_mutations_of_sets({{kTable}, {kNamed}},
                            [](const std::vector<std::string>& files) { parse_runs(files[0], "mutated.csv"); });
}

}  // namespace
}  // namespace tern
