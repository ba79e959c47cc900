// Every verb that writes, twice at once on one output and killed at any moment: whole files, and nothing left beside them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// A verb with two unlike inputs and one output.
struct Writer {
  const char* name;
  std::vector<std::string> one, other;  // arguments, without --output
  std::string output;                   // below the folder of a round
  bool is_directory = false;
  bool refuses_what_is_there = false;  // then one of two wins, and the other ends with 2
};

class Publishing : public InFolder<Publishing> {
 protected:
  static void SetUpTestSuite() {
    make_root("publishing");
    std::string a, b;
    for (int i = 0; i < 3000; ++i) {
      a += fmt::format("line {} of the first text, with words.\n", i);
      b += fmt::format("{} is another number and another text;\n", i * 7);
    }
    write("a.txt", a);
    write("b.txt", b);
    write("few.txt", "one\ntwo\nthree\n");
    write("other.txt", "four\nfive\n");
    ASSERT_EQ(tern("tokenize --train --input a.txt --vocab-size 300 --output tok 2>&1").code, 0);
    for (const char* name : {"m1", "m2"}) {
      write("config.json", R"({"model_type":"llama","vocab_size":300,"hidden_size":32,"intermediate_size":48,
        "num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64})");
      const Outcome made =
          tern(fmt::format("train config.json --from-scratch --tokenizer tok --data a.txt --seq 16 --batch 2 --steps 1 "
                           "--seed {} --output "
                           "{} --threads 1 2>&1",
                           name[1], name));
      ASSERT_EQ(made.code, 0) << made.text;
    }
  }

  static std::vector<Writer> writers() {
    const std::string m1 = root_ + "/m1/model", m2 = root_ + "/m2/model", tok = root_ + "/tok", a = root_ + "/a.txt",
                      b = root_ + "/b.txt";
    return {
        {"pack", {"tokenize", tok, "--pack", "--input", a}, {"tokenize", tok, "--pack", "--input", b}, "packed"},
        {"encode", {"tokenize", tok, "--input", a}, {"tokenize", tok, "--input", b}, "ids.txt"},
        {"tokenizer",
         {"tokenize", "--train", "--input", a, "--vocab-size", "280"},
         {"tokenize", "--train", "--input", b, "--vocab-size", "290"},
         "new-tok",
         true,
         true},
        {"gguf", {"export", m1, "--format", "gguf"}, {"export", m2, "--format", "gguf"}, "x.gguf", false, true},
        {"quantize", {"quantize", m1, "--type", "q4_0"}, {"quantize", m2, "--type", "q8_0"}, "q.gguf", false, true},
        {"hf", {"export", m1, "--format", "hf"}, {"export", m2, "--format", "hf", "--dtype", "bf16"}, "hf", true, true},
        {"embed",
         {"embed", m1, "--input", root_ + "/few.txt", "--pooling", "mean"},
         {"embed", m2, "--input", root_ + "/other.txt", "--pooling", "mean"},
         "v.npy",
         false,
         true},
        {"compare", {"compare", root_ + "/m1", root_ + "/m2"}, {"compare", root_ + "/m2", root_ + "/m1"}, "c.html"},
    };
  }

  std::vector<std::string> command(const std::vector<std::string>& arguments, const std::string& output) {
    std::vector<std::string> all = {TERN_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--output", output});
    return all;
  }

  // Names below the folder and what they hold; parts that name the moment taken out.
  static std::string content(const std::string& path) {
    if (!fs::exists(path)) return "nothing";
    if (!fs::is_directory(path)) return real_io().read(path);
    std::string all;
    for (const std::string& name : real_io().list(path)) all += name + ":" + content(path + "/" + name) + "\n";
    return all;
  }

  // What one undisturbed command leaves.
  std::string undisturbed(const Writer& w, const std::vector<std::string>& arguments) {
    const std::string folder = root_ + "/quiet";
    remove_all(real_io(), folder);
    make_dirs(real_io(), folder);
    std::string errors;
    EXPECT_EQ(run_to_end(command(arguments, folder + "/" + w.output), root_, &errors), 0) << w.name << ": " << errors;
    EXPECT_EQ(real_io().list(folder), std::vector<std::string>{w.output}) << w.name;
    return content(folder + "/" + w.output);
  }

  static int number(const char* variable, int otherwise) {
    const char* given = std::getenv(variable);
    return given ? std::atoi(given) : otherwise;
  }

  void race(int pairs);
  void kill(int kills);
};

void Publishing::race(int pairs) {
  for (const Writer& w : writers()) {
    const std::string one = undisturbed(w, w.one), other = undisturbed(w, w.other);
    ASSERT_NE(one, other) << w.name;
    const std::string folder = root_ + "/race", output = folder + "/" + w.output;
    int both = 0;
    for (int pair = 0; pair < pairs; ++pair) {
      remove_all(real_io(), folder);
      make_dirs(real_io(), folder);
      const bool alike = pair % 2 == 0;
      Child first(command(w.one, output), root_ + "/e1");
      Child second(command(alike ? w.one : w.other, output), root_ + "/e2");
      const int code1 = first.wait(), code2 = second.wait();
      const std::string said = real_io().read(root_ + "/e1") + real_io().read(root_ + "/e2");
      for (const int code : {code1, code2})
        ASSERT_TRUE(code == 0 || (code == 2 && w.refuses_what_is_there)) << w.name << " " << code << ": " << said;
      ASSERT_TRUE(code1 == 0 || code2 == 0) << w.name << ": " << said;
      both += code1 == 0 && code2 == 0;
      const std::string found = content(output);
      ASSERT_TRUE((found == one && (alike || code1 == 0)) || (found == other && !alike && code2 == 0))
          << w.name << " pair " << pair << ": " << said;
      ASSERT_EQ(real_io().list(folder), std::vector<std::string>{w.output}) << w.name << " pair " << pair;
    }
    fmt::print("{}: {} pairs, in {} both ended with 0\n", w.name, pairs, both);
  }
}

void Publishing::kill(int kills) {
  constexpr uint64_t kSeed = 20261123;
  uint64_t draw = 0;
  Clock& clock = real_clock();
  for (const Writer& w : writers()) {
    const int64_t begin = clock.now_ns();
    const std::string want = undisturbed(w, w.one);
    const double whole_s = seconds_between(begin, clock.now_ns());
    const std::string folder = root_ + "/kill", output = folder + "/" + w.output;
    int hit = 0, left = 0;
    for (int k = 0; k < kills; ++k) {
      remove_all(real_io(), folder);
      make_dirs(real_io(), folder);
      Child child(command(w.one, output), root_ + "/e1");
      clock.sleep_ns(static_cast<int64_t>(random_uniform({kSeed, 3}, draw++) * whole_s * 1.1e9));
      child.signal(SIGKILL);
      hit += child.wait() != 0;
      const std::string found = content(output);
      ASSERT_TRUE(found == "nothing" || found == want) << w.name << " seed " << kSeed << " kill " << k;
      left += real_io().list(folder).size() > (found == "nothing" ? 0u : 1u);
      std::string errors;
      const int code = run_to_end(command(w.one, output), root_, &errors);
      ASSERT_TRUE(code == 0 || (code == 2 && found == want && w.refuses_what_is_there)) << w.name << ": " << errors;
      ASSERT_EQ(content(output), want) << w.name;
      if (code == 0) {
        ASSERT_EQ(real_io().list(folder), std::vector<std::string>{w.output}) << w.name << " kill " << k;
      }
    }
    fmt::print("{}: {} kills, {} before the end, {} left something beside the output\n", w.name, kills, hit, left);
  }
}

TEST_F(Publishing, TwoWritersOfOneOutputLeaveWholeFiles) { race(number("PUBLISHING_PAIRS", 4)); }
TEST_F(Publishing, AKillAtAnyMomentIsMendedByTheSameCommand) { kill(number("PUBLISHING_KILLS", 4)); }

}  // namespace
}  // namespace tern
