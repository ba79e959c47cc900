#include "plan/plan_axes.h"

#include <gtest/gtest.h>

#include <set>

namespace tern {
namespace {

// Values unlike the defaults, and unlike each other where they may be.
std::vector<int64_t> values_of(const PlanAxis& a) {
  std::vector<int64_t> values;
  if (a.values.empty())
    for (int64_t v = a.least; v <= std::min(a.most, a.least + 3); ++v) values.push_back(v);
  else
    for (size_t v = 0; v < a.values.size(); ++v) values.push_back(static_cast<int64_t>(v));
  return values;
}

TEST(PlanAxes, ARowWritesItsOwnValueAndPinAlone) {
  for (const PlanAxis& a : plan_axes())
    for (const int64_t v : values_of(a)) {
      PlanPoint point;
      PinnedAxes pins;
      a.set(point, v), a.set_pin(pins, v);
      EXPECT_EQ(a.get(point), v) << a.name;
      EXPECT_EQ(a.pin(pins), v) << a.name;
      for (const PlanAxis& other : plan_axes()) {
        if (other.name == a.name) continue;
        EXPECT_EQ(other.get(point), other.get({})) << a.name << " writes " << other.name;
        EXPECT_FALSE(other.pin(pins)) << a.name << " pins " << other.name;
      }
      a.set_pin(pins, std::nullopt);
      EXPECT_FALSE(pins.any()) << a.name;
    }
}

TEST(PlanAxes, NamesAreNotSharedAndDefaultsAreOfTheRange) {
  std::set<std::string_view> names, keys, columns;
  for (const PlanAxis& a : plan_axes()) {
    EXPECT_TRUE(names.insert(a.name).second && keys.insert(a.key).second) << a.name;
    EXPECT_TRUE(a.column.empty() || columns.insert(a.column).second) << a.column;
    const int64_t usual = a.get({});
    if (a.values.empty())
      EXPECT_TRUE(usual >= a.least && usual <= a.most) << a.name;
    else
      EXPECT_LT(static_cast<size_t>(usual), a.values.size()) << a.name;
  }
}

}  // namespace
}  // namespace tern
