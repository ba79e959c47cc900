#pragma once
// The texts that are calls of tools, as a grammar.

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
struct CallRules {
  bool several = true;   // an answer may have several calls, where the syntax has a form for that
  bool content = false;  // content may stand before the calls, or in their place
};

/// GBNF of answers that call these tools as `syntax` spells it, with arguments that satisfy their schemas. Content is any
/// text without the syntax's mark; of the bare form any that does not begin with a brace. Errors: as gbnf_of_schemas.
std::string gbnf_of_calls(const ToolSyntax&, const std::vector<ToolSchema>& tools, CallRules);

}  // namespace tern
