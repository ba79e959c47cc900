// Random compositions of tokenizer steps: what the reference makes of a text too (dev/tokenizers/compositions.py), within
// ten seconds and 256 MiB each.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/process_memory.h"
#include "formats/format_test_support.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

constexpr double kMostSeconds = 10;
constexpr int64_t kMostBytes = 256 << 20;

struct CompositionCounts {
  int alike = 0, refused_here = 0, refused_there = 0, unlike = 0;
  double slowest = 0;
  int64_t largest = 0;
};

// Ids and text, or the error of a tokenizer or text that is refused.
void run_composition(const Json& c, CompositionCounts& n) {
  const bool taken_there = !c["ids"].is_null();
  try {
    const Tokenizer t = Tokenizer::from_json(c["tokenizer"].get<std::string>(), "", "composition");
    const std::vector<int32_t> ids = t.encode(c["text"].get<std::string>(), {.add_special = false});
    const std::string text = t.decode(ids);
    if (!taken_there) {
      ++n.refused_there;
      return;
    }
    const bool same = ids == c["ids"].get<std::vector<int32_t>>() && text == c["decoded"].get<std::string>();
    ++(same ? n.alike : n.unlike);
    if (!same && n.unlike <= 5)
      ADD_FAILURE() << "text " << c["text"].dump() << "\n" << c["tokenizer"].get<std::string>().substr(0, 3000);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    ++n.refused_here;
  }
}

TEST(TokenizerCompositionsSlow, EqualTheReferenceWithinTenSecondsAnd256MiB) {
  const char* path = std::getenv("TERN_TOKENIZER_COMPOSITIONS");
  if (!path) GTEST_SKIP() << "set TERN_TOKENIZER_COMPOSITIONS to a file of dev/tokenizers/compositions.py";
  std::ifstream file(path);
  CompositionCounts n;
  int line = 0;
  for (std::string text; std::getline(file, text);) {
    ++line;
    const Json c = parse_json(text, path);
    const int64_t before = read_process_memory().resident_bytes;
    const bool counted = !kSanitized && reset_peak_resident();
    const auto start = std::chrono::steady_clock::now();
    run_composition(c, n);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    n.slowest = std::max(n.slowest, seconds);
    ASSERT_LT(seconds, kMostSeconds) << "line " << line;
    if (!counted) continue;
    const int64_t bytes = read_process_memory().peak_resident_bytes - before;
    n.largest = std::max(n.largest, bytes);
    ASSERT_LT(bytes, kMostBytes) << "line " << line;
  }
  EXPECT_EQ(n.unlike, 0);
  EXPECT_GT(n.alike, line / 10);
  std::printf(
      "%d alike, %d unlike, %d refused here, %d refused by the reference alone; slowest %.2f s, largest %.1f MiB\n",
      n.alike, n.unlike, n.refused_here, n.refused_there, n.slowest, static_cast<double>(n.largest) / 1048576.0);
}

}  // namespace
}  // namespace tern
