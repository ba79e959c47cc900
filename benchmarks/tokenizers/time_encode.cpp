// CPU seconds of encoding a text on one thread: for compare.py, which lets the peers take turns.
//   time_encode TOKENIZER TEXT lines|whole|batch ROUNDS    prints one line of JSON
//   time_encode TOKENIZER save DIRECTORY                   writes tokenizer.json there
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/tokenizer/tokenizer.h"

namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace tern;
  if (argc < 4) {
    fmt::print(stderr, "usage: time_encode TOKENIZER TEXT lines|whole|batch ROUNDS | TOKENIZER save DIRECTORY\n");
    return 2;
  }
  const Tokenizer t = Tokenizer::load(argv[1]);
  if (std::string(argv[2]) == "save") {
    t.save(argv[3]);
    return 0;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {}), mode = argv[3];
  const std::vector<std::string> texts = mode == "whole" ? std::vector{text} : lines_of(text);
  const EncodeOptions options{.add_special = false};
  std::vector<double> seconds;
  size_t num_ids = 0, num_bytes = 0;
  for (const std::string& one : texts) num_bytes += one.size();
  for (int round = 0; round < (argc > 4 ? std::atoi(argv[4]) : 5); ++round) {
    num_ids = 0;
    const double start = cpu_seconds();
    if (mode == "batch") {  // all ids of all texts stay
      std::vector<std::vector<int32_t>> all;
      for (const std::string& one : texts) num_ids += all.emplace_back(t.encode(one, options)).size();
    } else {
      for (const std::string& one : texts) num_ids += t.encode(one, options).size();
    }
    seconds.push_back(cpu_seconds() - start);
  }
  const double first = seconds.front();  // before any word is in the cache
  std::ranges::sort(seconds);
  fmt::print("{{\"bytes\": {}, \"ids\": {}, \"first\": {}, \"best\": {}, \"median\": {}}}\n", num_bytes, num_ids, first,
             seconds.front(), seconds[seconds.size() / 2]);
  return 0;
} catch (const tern::Error& e) {
  fmt::print(stderr, "time_encode: {}\n", e.what());
  return 4;
}
