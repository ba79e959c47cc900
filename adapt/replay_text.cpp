#include "adapt/replay_text.h"

#include <algorithm>

#include "base/io.h"
#include "base/rng.h"
#include "formats/data/text_data.h"

namespace tern {

std::string keep_share(const std::string& data, double share, uint64_t seed, const std::string& to, Io& io) {
  constexpr size_t kStretch = 1024;
  const bool lines = data.ends_with(".jsonl") || data.ends_with(".ndjson");
  const std::string text = real_io().read(data), path = to + (lines ? ".jsonl" : ".txt");
  std::string kept;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    size_t end = lines ? begin : std::min(begin + kStretch, text.size());
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
    const bool none = kept.empty() && end == text.size();  // at least one
    if (none || random_uniform({seed, hash_name("replay")}, number) < share) {
      kept += text.substr(begin, end - begin);
      if (!kept.ends_with('\n')) kept += '\n';
      if (!lines) kept += std::string(kDocumentLine) + "\n";
    }
    begin = end;
  }
  write_file_atomically(io, path, kept);
  return path;
}

}  // namespace tern
