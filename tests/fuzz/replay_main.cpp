// Runs a fuzz target over every file of the directories named and over ten thousand seeded mutations of them
// (TERN_MUTATIONS, TERN_TEST_SEED), without libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "formats/mutate_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

constexpr size_t kMostBytes = 1 << 16;  // of a seed: larger ones take their time

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  const auto run = [](const std::string& bytes) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::fprintf(stderr, "%s\n", path.c_str());  // the last one named is the one that failed
    run(seeds.back());
  }
  if (seeds.empty()) return 1;  // an empty corpus checks nothing
  std::erase_if(seeds, [](const std::string& bytes) { return bytes.empty() || bytes.size() > kMostBytes; });
  std::mt19937_64 random(tern::mutation_seed());
  const tern::MutateNumbers change{.header = kMostBytes, .plain = 2};
  std::fprintf(stderr, "mutations with TERN_TEST_SEED=%llu:", static_cast<unsigned long long>(tern::mutation_seed()));
  const int count = seeds.empty() ? 0 : tern::mutation_count();
  for (int i = 0; i < count; ++i) {
    std::fprintf(stderr, i % 20 == 19 ? " %d\n" : " %d", i);  // likewise
    run(change(seeds[random() % seeds.size()], random));
  }
  std::printf("%zu files replayed, %d mutations\n", files.size(), count);
  return 0;
}
