// GB/s of a plain streaming read of a file from the page cache: the limit of decoding weights that lie there. It shares
// no code with tern.
//
//   read_rate FILE [THREADS] [ROUNDS]      prints the best round
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

typedef uint64_t Line __attribute__((vector_size(64)));

int main(int count, char** arguments) {
  const int threads = count > 2 ? std::atoi(arguments[2]) : 2, rounds = count > 3 ? std::atoi(arguments[3]) : 5;
  const int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || info.st_size < (1 << 20) || threads < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: read_rate FILE [THREADS] [ROUNDS]; FILE of a megabyte at least\n");
    return 2;
  }
  const void* map = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (map == MAP_FAILED) return std::perror("read_rate: mmap"), 1;
  const auto* lines = static_cast<const Line*>(map);
  const int64_t blocks = info.st_size / 512;  // of eight lines, one sum each
  double best = 0;
  uint64_t seen = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : seen)
    for (int part = 0; part < threads; ++part) {
      Line sum[8] = {};
      for (int64_t b = blocks * part / threads; b < blocks * (part + 1) / threads; ++b)
        for (int i = 0; i < 8; ++i) sum[i] += lines[b * 8 + i];
      for (const Line& s : sum) seen += s[0];
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(blocks) * 512 / seconds * 1e-9);
  }
  std::printf("%.2f\n", best);
  return seen == 42 ? 3 : 0;  // the sums are used
}
