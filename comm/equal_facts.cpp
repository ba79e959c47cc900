#include "comm/equal_facts.h"

#include <array>
#include <cstdint>

#include "base/error.h"

namespace tern {

void require_equal_facts(Comm& comm, std::span<const std::pair<std::string, std::string>> facts) {
  if (comm.size() == 1) return;
  constexpr int64_t kNone = INT64_MAX;
  int64_t first = kNone;  // fact · ranks + rank
  for (size_t i = 0; i < facts.size(); ++i) {
    const std::string theirs = comm.broadcast(facts[i].first + "\n" + facts[i].second, 0);
    if (theirs != facts[i].first + "\n" + facts[i].second && first == kNone)
      first = static_cast<int64_t>(i) * comm.size() + comm.rank();
  }
  comm.all_reduce({&first, 1}, Combine::least);
  if (first == kNone) return;
  const auto& [name, mine] = facts[static_cast<size_t>(first / comm.size())];
  const auto who = static_cast<int>(first % comm.size());
  const std::string of_0 = comm.broadcast(mine, 0), of_other = comm.broadcast(mine, who);
  throw Error(ErrorKind::usage,
              "{}: rank 0 has {}, rank {} has {}; all ranks need the same, or they would train unlike models or wait "
              "for each other",
              name, of_0, who, of_other);
}

}  // namespace tern
