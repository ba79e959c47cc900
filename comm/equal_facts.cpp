#include "comm/equal_facts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

// Neither stands in a name or a value.
constexpr char kBehindName = '\x1f', kBehindValue = '\x1e';

std::string joined_facts(std::span<const std::pair<std::string, std::string>> facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + kBehindName + value + kBehindValue;
  return text;
}
Facts facts_of(std::string_view text) {
  Facts facts;
  while (!text.empty()) {
    const size_t name = text.find(kBehindName), end = text.find(kBehindValue, name);
    facts.emplace_back(text.substr(0, name), text.substr(name + 1, end - name - 1));
    text.remove_prefix(end + 1);
  }
  return facts;
}

std::string value_in(std::span<const std::pair<std::string, std::string>> facts, const std::string& name) {
  const auto at = std::ranges::find(facts, name, [](const auto& fact) { return fact.first; });
  return at == facts.end() ? "none" : at->second;
}

}  // namespace

void require_equal_facts(Comm& comm, std::span<const std::pair<std::string, std::string>> facts) {
  if (comm.size() == 1) return;
  constexpr int64_t kNone = INT64_MAX;
  // Whole lists, as ranks that differ may have unlike many facts. This rank looks at rank 0's facts, then at its own that rank 0 lacks.
  Facts all = facts_of(comm.broadcast(joined_facts(facts), 0));
  const Facts of_0 = all;
  for (const auto& fact : facts)
    if (value_in(of_0, fact.first) == "none") all.push_back(fact);
  int64_t first = kNone;  // fact · ranks + rank
  for (size_t i = 0; i < all.size() && first == kNone; ++i)
    if (value_in(of_0, all[i].first) != value_in(facts, all[i].first))
      first = static_cast<int64_t>(i) * comm.size() + comm.rank();
  int64_t least = first;
  comm.all_reduce({&least, 1}, Combine::least);
  if (least == kNone) return;
  const auto who = static_cast<int>(least % comm.size());
  const std::string name =
      comm.broadcast(first == least ? all[static_cast<size_t>(first / comm.size())].first : "", who);
  const std::string of_other = comm.broadcast(first == least ? value_in(facts, name) : "", who);
  throw Error(ErrorKind::usage,
              "{}: rank 0 has {}, rank {} has {}; all ranks need the same, or they would train unlike models or wait "
              "for each other",
              name, value_in(of_0, name), who, of_other);
}

}  // namespace tern
