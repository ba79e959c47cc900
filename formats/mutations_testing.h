#pragma once
// The one claim about mutated files: each is read, or refused by an Error, within bounded memory.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process_memory.h"
#include "formats/format_test_support.h"
#include "formats/mutate_testing.h"

namespace tern {

struct SurviveMutations {
  int least_fine = 100, least_refused = 1000;  // of ten thousand: mutations bite, and leave something to read
  MutateFile change = mutate;
  int64_t bound_bytes = 64 << 20;  // of resident memory, beside three times the largest seed
};

/// Mutates one file of one of `seeds` at a time (a seed: the files that are read together) and gives all to `read`.
/// The seeds themselves must be good. Another exception than Error of kind bad_file, or a message beyond 4,000 bytes,
/// is a failure. Memory is judged without sanitizers, which keep what is freed. glibc keeps freed blocks, too, below a
/// size that rises with every large block that is freed. That size is fixed here: else what ten thousand readings left in
/// the heap would count as the need of one.
inline void survive_mutations_of_sets(const std::vector<std::vector<std::string>>& seeds,
                                      const std::function<void(const std::vector<std::string>&)>& read,
                                      const SurviveMutations& how = {}) {
  const uint64_t seed = mutation_seed();
  const int count = mutation_count();
  SCOPED_TRACE("TERN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  size_t largest = 0;
  ASSERT_FALSE(seeds.empty());
  for (const std::vector<std::string>& files : seeds) {
    for (const std::string& file : files) largest = std::max(largest, file.size());
    ASSERT_NO_THROW(read(files)) << "a seed is no good file";
  }
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);  // glibc's own start
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = !kSanitized && reset_peak_resident();
  int fine = 0, refused = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<std::string> files = seeds[random() % seeds.size()];
    std::string& one = files[random() % files.size()];
    one = how.change(std::move(one), random);
    try {
      read(files);
      ++fine;
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::bad_file) << "mutation " << i << ": " << error.what() << "\n" << one;
      ASSERT_LT(std::string_view(error.what()).size(), 4000U) << "mutation " << i;
    } catch (const std::exception& error) {
      FAIL() << "mutation " << i << " threw no Error: " << error.what() << "\n" << one;
    }
  }
  const int64_t grown = reset ? read_process_memory().peak_resident_bytes - before : -1;
  std::printf("%d mutations with seed %llu: %d read, %d refused, %s\n", count, static_cast<unsigned long long>(seed),
              fine, refused,
              grown >= 0 ? (std::to_string(grown >> 20) + " MiB more at the peak").c_str() : "memory not judged");
  EXPECT_GE(int64_t{fine} * 10'000, int64_t{how.least_fine} * count) << refused << " refused";
  EXPECT_GE(int64_t{refused} * 10'000, int64_t{how.least_refused} * count) << fine << " read";
  if (reset) { EXPECT_LE(grown, 3 * static_cast<int64_t>(largest) + how.bound_bytes); }
}

/// The same where a seed is one file.
inline void survive_mutations(const std::vector<std::string>& seeds,
                              const std::function<void(const std::string&)>& read, const SurviveMutations& how = {}) {
  std::vector<std::vector<std::string>> sets;
  for (const std::string& file : seeds) sets.push_back({file});
  survive_mutations_of_sets(
      sets, [&](const std::vector<std::string>& files) { read(files[0]); }, how);
}

}  // namespace tern
