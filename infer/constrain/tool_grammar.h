#pragma once
// A grammar of the answers that call tools.

#include <string>
#include <vector>

#include "base/json.h"
#include "formats/chat/tool_syntax.h"

namespace tern {

struct ToolSchema {
  std::string name;
  const Json* parameters = nullptr;  // a JSON Schema of the arguments; null: any object
  std::string place;                 // of the schema in the request, for messages
};
/// Which answers are allowed.
struct CallRules {
  bool several = true;   // an answer may have several calls, if the syntax has a form for that
  bool content = false;  // content may come before the calls, or in their place
};

/// GBNF of answers that call these tools in the given syntax, with arguments that satisfy their schemas. Content is any text without the
/// syntax's mark; in the form without a mark, any text that does not begin with a brace. Errors: those of gbnf_of_schemas.
std::string gbnf_of_calls(const ToolSyntax&, const std::vector<ToolSchema>& tools, CallRules);

}  // namespace tern
