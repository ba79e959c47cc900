#pragma once
// Reads the tools of a request: what the template shows of them, and the constraint on the answer.

#include <string>
#include <vector>

#include "base/json.h"
#include "infer/request.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

struct AskedTools {
  const Json* shown = nullptr;     // the list that the template shows, a part of the request; null: none
  std::vector<std::string> names;  // of tools that the answer may call; empty: its text is content
};
/// Reads tools, tool_choice and parallel_tool_calls. The request gets a constraint if calls are required, if one tool is named, if a tool is
/// strict, or if at most one call is allowed. Errors: ApiError that names the field: the model's template has no place for tools; tern cannot
/// constrain an answer by a schema.
AskedTools read_tools(Fields&, const ServedModel&, Request&);

}  // namespace tern
