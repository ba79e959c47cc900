// What a file's disk gives to each way in which tern reads models larger than memory, past the page cache, in turns: GB/s, and
// seconds of the processor for a GB.
//
//   read_ways FILE [SECONDS]
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "store/choose_reader.h"

int main(int count, char** arguments) {
  using namespace tern;
  if (count < 2) {
    fmt::print(stderr, "usage: read_ways FILE [SECONDS]\n");
    return 2;
  }
  try {
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(arguments[1]));
    constexpr int64_t kBand = int64_t{2} << 20;
    std::vector<Extent> extents;
    for (int64_t at = 0; at + kBand <= bytes; at += kBand) extents.push_back({0, at, kBand});
    const ChosenReader choice = choose_reader({arguments[1]}, extents, 4, count > 2 ? std::stod(arguments[2]) : 4);
    if (!choice.note.empty()) fmt::print("{}\n", choice.note);
    for (const ProbedReader& r : choice.probed)
      fmt::print("{:<9} {} threads  {:.3f} GB/s  {:.3f} CPU s/GB  ({:.2f} GB in {:.2f} s)\n", r.name, r.threads,
                 r.rate.bytes_per_s() * 1e-9, r.rate.cpu_s_per_gb(), static_cast<double>(r.rate.bytes) * 1e-9,
                 r.rate.seconds);
    fmt::print("{} is taken\n", choice.reader().name);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
