// Streams of two and three small tasks with a model of two layers: what each method keeps, and that a stream which was
// broken off goes on to the same bits.
#include "adapt/stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "adapt/memory_file.h"
#include "adapt/stream_methods.h"
#include "adapt/stream_testing.h"
#include "adapt/task_model.h"
#include "base/error.h"
#include "base/io.h"
#include "model/adapter_files.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// A model of width 16 that a few steps have trained, three texts unlike each other.
class Streams : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = testing::TempDir() + "tern-stream-XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    fill_stream_folder(root_, settings("base"));
  }
  static void TearDownTestSuite() { remove_all(real_io(), root_); }

  static TrainSettings settings(const std::string& output) { return small_settings(root_, output); }
  static StreamSettings stream(const std::string& output, StreamMethod method, size_t tasks = 2) {
    StreamSettings s{.train = settings(output), .tasks = small_tasks(root_, tasks), .method = method};
    s.penalty = 0.5, s.replay_share = 0.2, s.statistics_windows = 16, s.gate_tokens = 3;
    return s;
  }
  static std::string read(const std::string& path) { return real_io().read(root_ + "/" + path); }
  static bool is_there(const std::string& path) { return real_io().stat(root_ + "/" + path).has_value(); }

  // A of every branch of a PEFT directory, in f32.
  static std::map<std::string, std::vector<float>> rows_of_a(const StreamSettings& s, const std::string& directory) {
    TrainSettings run = s.train;
    run.adapter->begin = directory;
    TaskModel model;
    read_task_model(run, DType::f32, model);
    std::map<std::string, std::vector<float>> rows;
    for_each_adapter(model.in.spec, model.weights, [&](const ParameterInfo& info, const Tensor& t) {
      if (info.name.ends_with(".a")) rows[info.name] = {t.span<float>().begin(), t.span<float>().end()};
    });
    return rows;
  }
  static inline std::string root_;
};

constexpr StreamMethod kStreams[] = {StreamMethod::seqlora, StreamMethod::inflora, StreamMethod::olora,
                                     StreamMethod::ewc,     StreamMethod::replay,  StreamMethod::gainlora};

TEST_F(Streams, InfloraTrainsBAloneBesideDirectionsThatAreFreeOfOldInputs) {
  StreamSettings s = stream("inflora", StreamMethod::inflora, 3);
  const StreamResult r = run_stream(s);
  ASSERT_EQ(r.end, TrainEnd::finished);
  ASSERT_EQ(r.scores.rows.size(), 3u);
  for (size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(rows_of_a(s, StreamPlaces{s}.adapter(t)), rows_of_a(s, StreamPlaces{s}.in(t, "begin"))) << "A is given";
    EXPECT_LT(r.scores.rows[t][t], r.scores.before[t]) << "something is learned";
  }
  // Two layers; rank · out of q, k, v, o, gate, up, down.
  EXPECT_EQ(r.costs[0].trained, 2 * 2 * (16 + 8 + 8 + 16 + 24 + 24 + 16));
  EXPECT_GT(r.costs[0].protected_dim, 0);
  EXPECT_GE(r.costs[1].protected_dim, r.costs[0].protected_dim);
  EXPECT_GE(r.costs[2].protected_dim, r.costs[1].protected_dim);
  for (const TaskCost& c : r.costs)
    EXPECT_LE(c.kept_bytes, 8 * 2 * (3 * 8 * 16 + 12 * 24) + 4096) << "at most half of each matrix of directions";
  EXPECT_TRUE(is_there("inflora/03-t2/model/model.safetensors"));
  for (const char* gone : {"01-t0/model", "02-t1/model", "02-t1/memory.safetensors", "03-t2/run/checkpoints"})
    EXPECT_FALSE(is_there("inflora/" + std::string(gone))) << gone;
}

// B_t against the memory that lay there when it was made, through the files.
TEST_F(Streams, DirectionsOfTheSecondTaskAreOrthogonalToTheMemoryWithinF32) {
  const StreamSettings s = stream("orthogonal", StreamMethod::inflora);
  StreamHooks hooks;
  InputMemories memories;
  hooks.begun = [&](const std::string& what) {
    if (what == "t1") memories = read_memories(StreamPlaces{s}.in(0, "memory.safetensors"));
  };
  run_stream(s, hooks);
  ASSERT_FALSE(memories.empty());
  int compared = 0;
  for (const auto& [name, rows] : rows_of_a(s, StreamPlaces{s}.in(1, "begin"))) {
    const InputMemory& m = memories.at(name.substr(0, name.find(".branches")) + ".weight");
    const std::vector<double> b(rows.begin(), rows.end()), rest = free_part(m, b);
    for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(rest[i], b[i], 0x1p-24 * 2) << name;
    compared += 1;
  }
  EXPECT_EQ(compared, 14);
}

TEST_F(Streams, ARefusalBeforeTheFirstTaskLeavesNothing) {
  const auto refused = [&](const StreamSettings& s) {
    EXPECT_THROW(run_stream(s), Error);
    EXPECT_FALSE(is_there("refused"));
  };
  StreamSettings s = stream("refused", StreamMethod::seqlora);
  s.train.adapter->config.rank = 1000;
  refused(s);
  s = stream("refused", StreamMethod::seqlora);
  s.tasks[1].data = root_ + "/none.txt";
  refused(s);
  s = stream("refused", StreamMethod::seqlora);
  write_file_atomically(real_io(), root_ + "/asked.jsonl",
                        std::string_view("{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 0}\n"));
  s.tasks[1].test = root_ + "/asked.jsonl";
  refused(s);
  s = stream("refused", StreamMethod::seqlora);
  s.train.resume = Resume::must;
  refused(s);
}

TEST_F(Streams, ASentenceTellsAllTasksAndRuns) {
  StreamSettings s = stream("told", StreamMethod::ewc, 3);
  s.tasks[1].steps = 1;
  EXPECT_EQ(describe_stream(s), "3 tasks by --method ewc, one after another: t0 (4 steps), t1 (1 step), t2 (4 steps)");
  s.references = true;
  EXPECT_NE(describe_stream(s).find("; with --references also a run on each alone, and one of 9 steps on all together"),
            std::string::npos);
  s.method = StreamMethod::multitask, s.references = false;
  EXPECT_NE(describe_stream(s).find("3 tasks by --method multitask, all in one run of 9 steps: t0"), std::string::npos);
}

TEST_F(Streams, BrokenOffAtAnyStepOrBorderTheyGoOnToTheSameBits) {
  for (const StreamMethod method : kStreams) {
    const std::string name(name_of(method));
    run_stream(stream(name + "-whole", method));
    const StreamSettings s = stream(name + "-parts", method);
    // A step is saved after it was told, so each attempt that dies at its second step leaves one more; each third lives on to
    // the border of a task.
    int broken_off = 0;
    for (int attempt = 1; attempt <= 12 && !is_there(name + "-parts/02-t1/scores.json"); ++attempt) {
      StreamHooks hooks;
      int steps = 0;
      const auto die = [] { throw std::runtime_error("killed"); };
      if (attempt % 3 == 0) hooks.done = [&](size_t, const StreamScores&) { die(); };
      hooks.train = [&](const TrainSettings&) {
        TrainHooks h;
        h.step = [&](const StepReport&) {
          if (++steps == 2 && attempt % 3 != 0) die();
        };
        return h;
      };
      try {
        run_stream(s, hooks);
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "killed");
        ++broken_off;
      }
    }
    EXPECT_GE(broken_off, 3) << name;
    EXPECT_EQ(run_stream(s).end, TrainEnd::finished);
    for (const char* file : {"01-t0/scores.json", "02-t1/scores.json", "01-t0/run/adapter/adapter_model.safetensors",
                             "02-t1/run/adapter/adapter_model.safetensors", "page.html"})
      EXPECT_EQ(read(name + "-parts/" + file), read(name + "-whole/" + file)) << name << " " << file;
    if (method == StreamMethod::gainlora) {
      for (const char* file : {"02-t1/gated/gates.safetensors", "02-t1/memory.safetensors"})
        EXPECT_EQ(read(name + "-parts/" + file), read(name + "-whole/" + file)) << file;
    }
  }
}

// Where a stream is broken off after a task its page shows that far, and is read again; without the page it goes on.
TEST_F(Streams, ThePageIsWrittenAfterEachTaskAndMayFail) {
  const StreamSettings s = stream("page", StreamMethod::seqlora);
  StreamHooks hooks;
  std::vector<std::string> pages, notes;
  hooks.done = [&](size_t, const StreamScores&) {
    pages.push_back(read("page/page.html"));
    remove_all(real_io(), root_ + "/page/page.html");
    make_dirs(real_io(), root_ + "/page/page.html/a folder in its place");
  };
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_ANY_THROW(run_stream(s, hooks)) << "the second page cannot be read";
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_NE(pages[0].find("1 of 2 tasks"), std::string::npos);
  EXPECT_NE(pages[0].find("http-equiv"), std::string::npos);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("goes on without its page"), std::string::npos);
  remove_all(real_io(), root_ + "/page/page.html");
  EXPECT_EQ(run_stream(s).end, TrainEnd::finished);
  const std::string whole = read("page/page.html");
  EXPECT_EQ(whole.find("http-equiv"), std::string::npos);
  EXPECT_NE(whole.find("All tasks are learned"), std::string::npos);
}

TEST_F(Streams, PenaltiesAndReplayChangeTheSecondTaskAlone) {
  run_stream(stream("plain", StreamMethod::seqlora));
  for (const StreamMethod method : {StreamMethod::ewc, StreamMethod::replay}) {
    const std::string name(name_of(method));
    run_stream(stream(name, method));
    const std::string adapter = "/run/adapter/adapter_model.safetensors";
    EXPECT_EQ(read(name + "/01-t0" + adapter), read("plain/01-t0" + adapter)) << name;
    EXPECT_NE(read(name + "/02-t1" + adapter), read("plain/02-t1" + adapter)) << name;
  }
  StreamSettings free = stream("free", StreamMethod::ewc);
  free.penalty = 0;
  run_stream(free);
  EXPECT_EQ(read("free/02-t1/scores.json").substr(0, 60), read("plain/02-t1/scores.json").substr(0, 60));
}

TEST_F(Streams, ReferencesStandBesideTheMatrix) {
  StreamSettings s = stream("references", StreamMethod::seqlora);
  s.references = true;
  const StreamResult r = run_stream(s);
  ASSERT_EQ(r.scores.alone.size(), 2u);
  ASSERT_EQ(r.scores.together.size(), 2u);
  EXPECT_EQ(r.scores.alone[0], r.scores.rows[0][0]) << "the first task's run is the run on it alone";
  EXPECT_LT(r.scores.alone[1], r.scores.before[1]);
  StreamSettings together = stream("together", StreamMethod::multitask);
  EXPECT_EQ(run_stream(together).scores.together, r.scores.together);
  EXPECT_EQ(read("together/page.html").find("<svg"), std::string::npos) << "no tasks after one another";
}

TEST_F(Streams, JoinedTextsAreReadByTheSettings) {
  StreamSettings s = stream("joined", StreamMethod::replay);
  const std::string broken = root_ + "/broken.txt", solid = root_ + "/solid.txt", to = root_ + "/joined.safetensors";
  write_file_atomically(real_io(), broken, "a\xFF tern\n");
  write_file_atomically(real_io(), solid, std::string(size_t{2} << 20, 'x'));  // nowhere to cut it
  const auto message = [&](const std::string& path) -> std::string {
    try {
      join_data(s, {s.tasks[0].data, path}, to, real_io());
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(message(broken).find("broken.txt"), std::string::npos) << message(broken);
  EXPECT_FALSE(is_there("joined.safetensors"));
  s.train.invalid_utf8 = InvalidUtf8::replace;
  EXPECT_EQ(message(broken), "");
  EXPECT_TRUE(is_there("joined.safetensors"));
  s.train.memory_bytes = 1 << 20;
  EXPECT_NE(message(solid).find("which takes up to"), std::string::npos) << message(solid);
}

TEST_F(Streams, RefuseByName) {
  const auto message = [](const StreamSettings& s) -> std::string {
    try {
      run_stream(s);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  run_stream(stream("same", StreamMethod::seqlora, 1));
  StreamSettings other = stream("same", StreamMethod::seqlora, 1);
  other.train.seed = 4;
  EXPECT_NE(message(other).find("seed"), std::string::npos);
  EXPECT_NE(message(stream("same", StreamMethod::ewc, 1)).find("method"), std::string::npos);
  EXPECT_NE(message(stream("base", StreamMethod::seqlora)).find("holds other things"), std::string::npos);
  StreamSettings lion = stream("lion", StreamMethod::inflora);
  lion.train.optimizer = update_config(UpdateRule::lion);
  EXPECT_NE(message(lion).find("--optimizer lion"), std::string::npos);
}

}  // namespace
}  // namespace tern
