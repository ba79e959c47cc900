#pragma once
// The messages of a conversation, as a client sends them and as templates read them.

#include "base/json.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

/// Reads the messages into the form that templates take: contents become texts, arguments of calls become objects, and the answer of a tool gets the
/// name of its tool. Errors: ApiError that names the field; also if there are calls of tools and the model's template has no place for them.
Json read_messages(Fields&, const ServedModel&);

}  // namespace tern
