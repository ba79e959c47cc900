#include "comm/equal_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

std::string said_with(int ranks, const std::function<std::string(int rank, const char* name)>& value) {
  int passed = 0;
  try {
    with_comms(ranks, {.baton = true}, [&](Comm& comm) {
      const std::pair<std::string, std::string> facts[] = {{"seed", value(comm.rank(), "seed")},
                                                           {"data", value(comm.rank(), "data")}};
      require_equal_facts(comm, facts);
      if (comm.rank() == comm.size() - 1) ++passed;
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_EQ(passed, 0);
    return e.what();
  }
  return "no error";
}

TEST(EqualFacts, TheFirstDifferenceIsNamedWithBothRanks) {
  EXPECT_EQ(said_with(4, [](int, const char*) { return "1"; }), "no error");
  EXPECT_EQ(said_with(1, [](int, const char*) { return "1"; }), "no error");
  const std::string said = said_with(
      4, [](int rank, const char* name) { return rank >= 2 && std::string(name) == "data" ? "7 tokens" : "9 tokens"; });
  EXPECT_EQ(said.find("data: rank 0 has 9 tokens, rank 2 has 7 tokens;"), 0u) << said;
  EXPECT_EQ(said_with(2, [](int rank, const char*) { return std::to_string(rank); }).find("seed: rank 0 has 0"), 0u);
}

TEST(EqualFacts, ARankMayHaveFactsThatOthersLack) {
  const auto said = [](int with_more, const std::string& more) {
    try {
      with_comms(3, {.baton = true}, [&](Comm& comm) {
        std::vector<std::pair<std::string, std::string>> facts = {{"seed", "1"}};
        if (comm.rank() == with_more) facts.insert(facts.begin(), {more, "10"});
        facts.emplace_back("data", "9 tokens");
        require_equal_facts(comm, facts);
      });
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("no error");
  };
  EXPECT_EQ(said(1, "beta2").find("beta2: rank 0 has none, rank 1 has 10;"), 0u) << said(1, "beta2");
  EXPECT_EQ(said(0, "trace").find("trace: rank 0 has 10, rank 1 has none;"), 0u) << said(0, "trace");
  EXPECT_EQ(said(7, "none"), "no error");
}

}  // namespace
}  // namespace tern
