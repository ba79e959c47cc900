#pragma once
// The Plan as a JSON file. Equal plans give equal bytes, and reading a file gives back the same plan.

#include <string>
#include <string_view>

#include "base/json.h"
#include "plan/plan.h"

namespace tern {

/// The text of the file, version 1. `report`: words and figures derived from the plan, which are written for people
/// under the key "report" and are not read back. Errors: none; numbers are finite by construction.
std::string plan_json(const Plan&);
std::string plan_json(const Plan&, const Json& report);
/// Reads a plan. Errors: bad_file "PLACE: KEY: …" if the text is no plan of this version: unknown or missing keys (lengths, tp_comm_overlap, stages, program, error and report may be missing),
/// wrong types, layers that leave holes, stages out of order, degrees below one.
Plan parse_plan(std::string_view json, std::string_view place);
Plan read_plan(const std::string& path);

}  // namespace tern
