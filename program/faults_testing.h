#pragma once
// Tests only: a fault of a Program must be reported, and by its sentence.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program/validate.h"

namespace tern {

/// What the validator says first; "": nothing.
inline std::string first_fault(const Program& p) {
  const std::vector<std::string> faults = validate(p);
  return faults.empty() ? "" : faults[0];
}

inline void expect_fault(const Program& p, const std::string& sentence, ProgramKind kind = ProgramKind::training) {
  const std::vector<std::string> faults = validate(p, kind);
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [&](const std::string& f) { return f.find(sentence) != std::string::npos; }))
      << "wanted '" << sentence << "' among " << faults.size()
      << " faults, first: " << (faults.empty() ? "-" : faults[0]);
}

inline constexpr ProgramKind kInference = ProgramKind::inference;

/// Takes it out, with what others wait for.
inline void take_out(Program& p, int64_t place) {
  p.instructions.erase(p.instructions.begin() + place);
  for (Instruction& i : p.instructions) {
    std::erase(i.waits, static_cast<int>(place));
    for (int& w : i.waits) w -= w > place;
  }
}

}  // namespace tern
