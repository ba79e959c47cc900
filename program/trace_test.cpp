// Traces: what a viewer shows of events that run beside each other.
#include "program/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>

#include "base/json.h"

namespace tern {
namespace {

// [begin, end) of each event, in nanoseconds, by (process, thread); and the threads' names.
struct TracedThreads {
  std::map<std::pair<int, int>, std::vector<std::pair<int64_t, int64_t>>> spans;
  std::map<std::pair<int, int>, std::string> names;
};
TracedThreads threads_of(const std::string& trace) {
  TracedThreads t;
  const auto ns = [](const Json& us) { return std::llround(us.get<double>() * 1000); };
  const Json json = parse_json(trace, "trace");
  for (const Json& e : json["traceEvents"]) {
    if (e["ph"] == "C") continue;
    const std::pair<int, int> thread{e["pid"], e["tid"]};
    if (e["name"] == "thread_name") t.names[thread] = e["args"]["name"];
    if (e["ph"] == "X") t.spans[thread].emplace_back(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]));
  }
  for (auto& [thread, spans] : t.spans) std::ranges::sort(spans);
  return t;
}

TraceEvent event_of(Resource resource, double start_s, double duration_s, int rank = 0) {
  return {.rank = rank, .resource = resource, .start_s = start_s, .duration_s = duration_s};
}

// Whatever runs beside what: no two events of a thread overlap, each thread has a name of its own, and no event is lost.
TEST(ChromeTrace, EventsOfOneThreadNeverOverlap) {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t n) { return 1e-10 * static_cast<double>(random() % n); };
  for (const uint32_t longest : {1u, 7u, 33u, 1000u})
    for (const size_t count : {size_t{1}, size_t{7}, size_t{300}}) {
      std::vector<TraceEvent> events;
      for (size_t i = 0; i < count; ++i)
        events.push_back(event_of(random() % 2 ? Resource::disk : Resource::compute, draw(5000), draw(longest),
                                  static_cast<int>(random() % 2)));
      const TracedThreads t = threads_of(chrome_trace(events, events));
      size_t seen = 0;
      std::set<std::pair<int, std::string>> names;
      for (const auto& [thread, spans] : t.spans) {
        ASSERT_TRUE(t.names.contains(thread));
        EXPECT_TRUE(names.emplace(thread.first, t.names.at(thread)).second) << t.names.at(thread);
        for (size_t i = 1; i < spans.size(); ++i)
          ASSERT_GE(spans[i].first, spans[i - 1].second) << t.names.at(thread) << ", longest " << longest;
        seen += spans.size();
      }
      EXPECT_EQ(seen, 2 * count);
    }
}

// A second lane is there for what overlaps alone.
TEST(ChromeTrace, GivesTheFirstFreeLane) {
  const std::vector<TraceEvent> events{event_of(Resource::disk, 0, 3e-6), event_of(Resource::disk, 1e-6, 1e-6),
                                       event_of(Resource::disk, 2e-6, 2e-6), event_of(Resource::disk, 3e-6, 1e-6),
                                       event_of(Resource::compute, 0, 9e-6)};
  const TracedThreads t = threads_of(chrome_trace(events, "measured"));
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> spans;
  for (const auto& [thread, of] : t.spans) spans[t.names.at(thread)] = of;
  const decltype(spans) want{
      {"compute", {{0, 9000}}}, {"disk", {{0, 3000}, {3000, 4000}}}, {"disk 2", {{1000, 2000}, {2000, 4000}}}};
  EXPECT_EQ(spans, want);
}

// Events that follow each other to the picosecond stay on one thread, though their seconds are no exact numbers.
TEST(ChromeTrace, WhatFollowsWithoutAGapStaysOnOneThread) {
  std::mt19937 random(4);
  std::vector<TraceEvent> events;
  int64_t ps = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t next = ps + 1 + static_cast<int64_t>(random() % 4) * 500 + (i % 7 == 0 ? 499 : 0);
    events.push_back(event_of(Resource::disk, static_cast<double>(ps) * 1e-12, static_cast<double>(next - ps) * 1e-12));
    ps = next;
  }
  EXPECT_EQ(threads_of(chrome_trace(events, "predicted")).spans.size(), 1u);
}

}  // namespace
}  // namespace tern
