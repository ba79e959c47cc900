#pragma once
// The tools of a request: what the template shows of them, and the constraint on the answer.

#include <string>
#include <vector>

#include "base/json.h"
#include "infer/request.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

struct AskedTools {
  const Json* shown = nullptr;     // for the template, in the request; null: none
  std::vector<std::string> names;  // that the answer may call; empty: its text is content
};

/// Reads tools, tool_choice and parallel_tool_calls. Where calls are asked for (required, or one by its name), where a tool
/// is strict, or where at most one call is allowed, the request gets a constraint. Errors: ApiError that names the field:
/// the model's template has no place for tools; a schema that tern cannot hold an answer to.
AskedTools read_tools(Fields&, const ServedModel&, Request&);

}  // namespace tern
