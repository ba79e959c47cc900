#pragma once
// The messages of a conversation, as a client sends them and as templates read them.

#include "base/json.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

/// Contents are texts; arguments of calls are objects; an answer of a tool has the name of its tool.
/// Errors: ApiError that names the field; also where the model's template has no place for tools.
Json read_messages(Fields&, const ServedModel&);

}  // namespace tern
