#include "planner/judges/certificate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"
#include "planner/judges/check_certificate.h"

namespace tern {
namespace {

RandomInstance certified_case(int seed) {
  return {.layers = 4 + seed % 7,
          .strategies = 2 + seed % 3,
          .stages = 1 + seed % 4,
          .micro = 1 + seed % 9,
          .schedule = seed % 2 == 0 ? PipelineSchedule::gpipe : PipelineSchedule::one_f_one_b,
          .tails = seed % 3 == 0,
          .begins = seed % 5 == 0,
          .entries = seed % 4 == 0,
          .transients = seed % 2 == 0,
          .host_link = seed % 7 == 0,
          .tiers = seed % 6 == 0,
          .types = seed % 5 == 1 ? 2 : 1,
          .link_classes = seed % 5 == 1 ? 2 : 1,
          .memory = 0.6};
}

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Certificate, TrueOnesAreAccepted) {
  int accepted = 0;
  int64_t closed = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance in = random_instance(certified_case(seed), static_cast<uint64_t>(seed));
    const SearchResult r = search(in, {.simulations = 0});
    if (!r.found) continue;
    const CertificateVerdict v = check_certificate(in, write_certificate(in, r));
    EXPECT_TRUE(v.accepted) << "seed " << seed << ": " << v.reason;
    accepted += v.accepted;
    closed += v.stages_closed;
  }
  EXPECT_GT(accepted, 80);
  EXPECT_GT(closed, 100);
}

// Each change makes a statement false, or the proof one of another statement.
TEST(Certificate, MutatedOnesAreRejected) {
  int bounds = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const Instance in = random_instance(certified_case(seed), static_cast<uint64_t>(seed));
    const SearchResult r = search(in);
    if (!r.found) continue;
    const std::string good = write_certificate(in, r);
    const auto rejected = [&](const Instance& of, const std::string& text) {
      return !check_certificate(of, text).accepted;
    };
    const std::string makespan = "makespan " + std::to_string(r.makespan_ps);
    EXPECT_TRUE(rejected(in, replace(good, makespan, "makespan " + std::to_string(r.makespan_ps - 1))));
    EXPECT_TRUE(rejected(in, replace(good, "instance ", "instance 1")));
    EXPECT_TRUE(rejected(in, replace(good, "strategy", "strategy 0")));
    EXPECT_TRUE(rejected(in, replace(good, "stage 0", "stage 1")));
    EXPECT_TRUE(rejected(in, good.substr(0, good.size() / 2)));
    EXPECT_TRUE(rejected(in, ""));
    // A worse plan stated as the best: true makespan, false bound.
    const std::string bound = "bound " + std::to_string(std::min(r.model_bound_ps, r.makespan_ps));
    EXPECT_TRUE(rejected(in, replace(good, bound, "bound " + std::to_string(r.makespan_ps + 1))));
    if (in.num_layers() <= 6) {
      SearchResult worse = r;
      Pricer price(in);
      for_each_assignment(in, [&](const Assignment& a) {
        if (worse.makespan_ps > r.makespan_ps * 11 / 10) return;
        const Priced p = price(a);
        if (!p.fits() || p.makespan <= worse.makespan_ps) return;
        worse.assignment = a;
        worse.makespan_ps = worse.model_bound_ps = p.makespan;
      });
      if (worse.makespan_ps > r.makespan_ps) {
        EXPECT_TRUE(rejected(in, write_certificate(in, worse))) << "seed " << seed;
        worse.model_bound_ps = r.model_bound_ps;
        EXPECT_FALSE(rejected(in, write_certificate(in, worse))) << "seed " << seed;
        ++bounds;
      }
    }
    // The answer of a cheaper instance.
    Instance cheaper = in;
    for (auto& row : cheaper.cost)
      for (CostVector& c : row) c.forward -= c.forward / 4;
    const SearchResult other = search(cheaper);
    EXPECT_TRUE(rejected(in, write_certificate(cheaper, other)));
    // Memory that the stated assignment does not fit.
    Instance tight = in;
    for (auto& c : tight.capacity) c[0] = 1;
    EXPECT_TRUE(rejected(tight, replace(
                                    good, good.substr(good.find("instance"), 25), "instance " + [&] {
                                      char hex[17];
                                      std::snprintf(hex, sizeof hex, "%016llx",
                                                    static_cast<unsigned long long>(hash_of(tight)));
                                      return std::string(hex);
                                    }())));
  }
  EXPECT_GT(bounds, 15);
}

TEST(Certificate, PricesOnlyHelp) {
  const Instance in = random_instance(certified_case(13), 13);
  const SearchResult r = search(in);
  ASSERT_TRUE(r.found);
  std::string text = write_certificate(in, r);
  const CertificateVerdict with = check_certificate(in, text);
  for (int i = 0; i < in.num_stages; ++i) {
    const std::string key = "prices " + std::to_string(i);
    const size_t at = text.find(key) + key.size();
    text.erase(at, text.find('\n', at) - at);
  }
  const CertificateVerdict without = check_certificate(in, text);
  EXPECT_TRUE(with.accepted);
  EXPECT_TRUE(without.accepted);
  EXPECT_GE(with.stages_closed, without.stages_closed);
}

TEST(Certificate, SaysWhatItCannotCertify) {
  const Instance in = random_instance(
      {.layers = 4, .stages = 2, .micro = 4, .schedule = PipelineSchedule::zb_h1, .split = true, .memory = 1}, 3);
  const SearchResult r = search(in);
  ASSERT_TRUE(r.found);
  EXPECT_THROW(write_certificate(in, r), Error);
  EXPECT_THROW(write_certificate(in, SearchResult{}), Error);
}

}  // namespace
}  // namespace tern
