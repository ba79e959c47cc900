// OUT under faults: at whatever operation it stops, OUT/model is a whole model and says of which checkpoint, and what
// is put aside is somewhere.
#include "train/run_dir.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/memory_io.h"
#include "base/source_dir_testing.h"
#include "formats/safetensors/safetensors.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

const std::string kModel = source_dir() + "/tests/golden/models/llama";

// A model whose every weight is `value`, and where it goes.
struct Exported {
  TrainInputs in;
  Arena arena;
  ModelWeights weights;
  Exported() {
    TrainSettings s;
    s.model = kModel, s.seq = 8;
    in = load_inputs(s);
    in.tokenizer = Tokenizer::load(source_dir() + "/tests/golden/tokenizers/byte_level");
    weights = allocate_weights(in.spec, DType::f32, MemoryClass::weights, arena);
  }
  void write(Io& io, int64_t step) {
    for (Tensor* t : tensors(in.spec, weights))
      for (float& x : t->span<float>()) x = static_cast<float>(step);
    const RunDirectory run(io, "run");
    run.export_model(in, weights, DType::f32, {step, static_cast<uint32_t>(100 + step)}, nullptr, run.model());
  }
};

// The step that OUT/model says, its weights being that step's; -1: no model.
int64_t step_of(Io& io) {
  const RunDirectory run(io, "run");
  if (!io.stat(run.model())) return -1;
  const auto of = run.exported(run.model());
  if (!of || of->crc32c != 100 + of->step) return -2;
  const std::string bytes = io.read(run.model() + "/model.safetensors");
  const Safetensors model = Safetensors::over(std::as_bytes(std::span(bytes)), "model");
  for (size_t i = 0; i < model.size(); ++i) {
    float x = 0;
    std::memcpy(&x, model[i].bytes.data() + model[i].bytes.size() - 4, 4);
    if (x != static_cast<float>(of->step)) return -3;
  }
  for (const char* name : {"config.json", "tokenizer.json"})
    if (io.read(run.model() + "/" + name).empty()) return -4;
  for (const std::string& name : io.list("run"))
    if (name.find(".tmp-") != std::string::npos || name.find(".old-") != std::string::npos) return -5;
  return of->step;
}

TEST(RunDirectory, AtEveryOperationAndFaultTheModelIsTheOldOneOrTheNewOne) {
  Exported model;
  MemoryIo plain;
  model.write(plain, 1);
  FaultIo counter(plain);
  model.write(counter, 2);
  const int64_t operations = counter.num_operations();
  ASSERT_GE(operations, 20);
  ASSERT_EQ(step_of(plain), 2);
  for (const FaultKind kind : {FaultKind::kill_before, FaultKind::kill_after, FaultKind::short_write,
                               FaultKind::no_space, FaultKind::io_error, FaultKind::sync_error})
    for (int64_t at = 0; at < operations; ++at) {
      MemoryIo disk;
      model.write(disk, 1);
      FaultIo faulty(disk, {.at = at, .kind = kind});
      try {
        model.write(faulty, 2);
      } catch (const Error&) {
      } catch (const SimulatedKill&) {}
      const auto lost = disk.state_after_crash(static_cast<uint64_t>(at) * 10 + static_cast<uint64_t>(kind));
      for (Io* io : {static_cast<Io*>(&disk), static_cast<Io*>(lost.get())}) {
        const int64_t step = step_of(*io);
        ASSERT_TRUE(step == 1 || step == 2) << step << ": fault " << static_cast<int>(kind) << " at operation " << at
                                            << " of " << operations << (io == &disk ? "" : ", power lost");
        model.write(*io, 3);  // the next process goes on
        ASSERT_EQ(step_of(*io), 3) << "fault " << static_cast<int>(kind) << " at operation " << at;
      }
    }
}

TEST(RunDirectory, WhatIsPutAsideLiesUnderOneNumberAndNothingOfItIsLost) {
  const auto fill = [](Io& io) {
    for (const char* name : {"run/checkpoints", "run/model", "run/logs"}) make_dirs(io, name);
    for (const char* file :
         {"run/checkpoints/a", "run/model/a", "run/logs/metrics.jsonl", "run/recipe.toml", "run/checkpoints.before-1"})
      write_file_atomically(io, file, std::string_view(file));
  };
  MemoryIo plain;
  fill(plain);
  FaultIo counter(plain);
  EXPECT_EQ(RunDirectory(counter, "run").put_aside(),
            (std::vector<std::string>{"run/checkpoints.before-2", "run/model.before-2", "run/logs.before-2",
                                      "run/recipe.toml.before-2"}));
  for (int64_t at = 0; at < counter.num_operations(); ++at) {
    MemoryIo disk;
    fill(disk);
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_after});
    EXPECT_THROW(RunDirectory(faulty, "run").put_aside(), SimulatedKill);
    const auto lost = disk.state_after_crash(static_cast<uint64_t>(at));
    RunDirectory(*lost, "run").put_aside();
    for (const char* part : {"checkpoints", "model", "logs", "recipe.toml"}) {
      EXPECT_FALSE(lost->stat(fmt::format("run/{}", part))) << part;
      EXPECT_TRUE(lost->stat(fmt::format("run/{}.before-2", part)) || lost->stat(fmt::format("run/{}.before-3", part)))
          << part << ", killed after operation " << at;
    }
  }
  EXPECT_TRUE(RunDirectory(plain, "run").put_aside().empty());
}

TEST(RunDirectory, AnOutputThatIsNoFolderIsRefusedBeforeAnythingRuns) {
  ModelDir model;
  model.path = "some-model", model.bare_config = true;
  MemoryIo io;
  io.create("file");
  EXPECT_THROW(check_output(io, "file", model), Error);
  EXPECT_THROW(check_output(real_io(), "/dev/null", model), Error);
  EXPECT_NO_THROW(check_output(io, "new", model));
  make_dirs(io, "theirs");
  io.create("theirs/config.json");
  EXPECT_NO_THROW(check_output(io, "theirs", model));
  io.create("theirs/model-00001-of-2.safetensors");
  EXPECT_THROW(check_output(io, "theirs", model), Error) << "a model of somebody";
  io.create("theirs/lock");
  EXPECT_NO_THROW(check_output(io, "theirs", model)) << "a run has been there";
}

TEST(RunDirectory, FollowsNoLinkOutOfIt) {
  std::string pattern = testing::TempDir() + "tern-links-XXXXXX";
  const std::string root = ::mkdtemp(pattern.data());
  for (const char* part : {"checkpoints", "logs", "data", "model", "lock"}) {
    const std::string out = root + "/" + part, theirs = root + "/theirs-" + part;
    make_dirs(real_io(), theirs + "/step-3.tmp-5");
    make_dirs(real_io(), out);
    ASSERT_EQ(::symlink(theirs.c_str(), (out + "/" + part).c_str()), 0);
    EXPECT_THROW(RunDirectory(real_io(), out), Error) << part;
    EXPECT_TRUE(real_io().stat(theirs + "/step-3.tmp-5")) << part;
  }
  remove_all(real_io(), root);
}

TEST(RunDirectory, ARecordThatSaysNothingIsNoRecord) {
  MemoryIo io;
  const RunDirectory run(io, "run");
  EXPECT_FALSE(run.exported(run.model()));
  make_dirs(io, run.model());
  for (const char* text : {"", "{}", "[1]", "{\"step\":1}", "{\"step\":\"1\",\"checkpoint_crc32c\":\"0a\"}",
                           "{\"step\":1,\"checkpoint_crc32c\":\"zz\"}", "{\"step\":1,\"checkpoint_crc32c\":7}"}) {
    io.create(run.model() + "/tern_export.json")->append(std::string_view(text));
    EXPECT_FALSE(run.exported(run.model())) << text;
  }
}

}  // namespace
}  // namespace tern
