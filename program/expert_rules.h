#pragma once
// Rules of experts that steps of inference read as their router chooses them. program/validate.h lists these rules.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// A matrix of an expert, or what is expected of one.
bool is_expert(const Buffer&);
/// A part of a FORWARD that uses an expert.
bool uses_expert(const Instruction&);

/// The rules that the Program breaks, one sentence each. Its fields must be in range.
std::vector<std::string> faults_of_experts(const Program&);

}  // namespace tern
