#pragma once
// The validator's rules for rows that passes send to other ranks' experts (Instruction::routed_bytes and told_bytes). For program/ alone.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The rules named Rows in validate.h that the Program breaks. It must have at most one FORWARD, RECOMPUTE, BACKWARD_INPUT per unit and micro-batch.
std::vector<std::string> faults_of_routed_rows(const Program&);

}  // namespace tern
