// GB/s of a plain streaming read of a file's bytes, twice: from the page cache, and from a copy in anonymous memory
// that asks for huge pages. The limits of decoding weights that lie there. It shares no code with tern.
//
//   read_rate FILE [THREADS] [ROUNDS]      prints the best and the median round of each
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef uint64_t Line __attribute__((vector_size(64)));

struct Rates {
  double best, median;
};

// Of `rounds` reads of `bytes` from `data`, in GB/s. `seen` keeps the sums in use.
static Rates read_rates(const void* data, int64_t bytes, int threads, int rounds, uint64_t& seen) {
  const auto* lines = static_cast<const Line*>(data);
  const int64_t blocks = bytes / 512;  // of eight lines, one sum each
  std::vector<double> rates;
  uint64_t all = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : all)
    for (int part = 0; part < threads; ++part) {
      Line sum[8] = {};
      for (int64_t b = blocks * part / threads; b < blocks * (part + 1) / threads; ++b)
        for (int i = 0; i < 8; ++i) sum[i] += lines[b * 8 + i];
      for (const Line& s : sum) all += s[0];
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(static_cast<double>(blocks) * 512 / seconds * 1e-9);
  }
  seen += all;
  std::sort(rates.begin(), rates.end());
  return {rates.back(), rates[rates.size() / 2]};
}

int main(int count, char** arguments) {
  const int threads = count > 2 ? std::atoi(arguments[2]) : 2, rounds = count > 3 ? std::atoi(arguments[3]) : 5;
  const int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || info.st_size < (1 << 20) || threads < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: read_rate FILE [THREADS] [ROUNDS]; FILE of a megabyte at least\n");
    return 2;
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  const void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (map == MAP_FAILED) return std::perror("read_rate: mmap"), 1;
  uint64_t seen = 0;
  const Rates mapped = read_rates(map, info.st_size, threads, rounds, seen);
  constexpr size_t kHuge = size_t{2} << 20;
  void* copy = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return std::perror("read_rate: mmap"), 1;
  auto* const begin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(copy) + kHuge - 1) / kHuge * kHuge);
  if (madvise(begin, bytes, MADV_HUGEPAGE) != 0) std::perror("read_rate: madvise");
  std::memcpy(begin, map, bytes);
  const Rates huge = read_rates(begin, info.st_size, threads, rounds, seen);
  std::printf("%.2f %.2f %.2f %.2f\n", mapped.best, huge.best, mapped.median, huge.median);
  return seen == 42 ? 3 : 0;  // the sums are used
}
