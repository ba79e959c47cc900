#pragma once
// Reads which form a request wants its text to have.

#include <memory>

#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

class Constraint;  // infer/constrain/constraint.h

/// The constraint that follows from `response_format` (a JSON object, or one that satisfies a schema) or `grammar` (GBNF, as llama.cpp's server
/// takes it; an empty text counts as none). Null: any text will do. The I/O thread may call it, as the sizes of a grammar's text and states are
/// bounded, and the time is linear in them. Errors: ApiError that names the field, with the grammar's line or the place in the schema; both
/// fields are given.
std::shared_ptr<Constraint> read_text_form(Fields&, const ServedModel&);
/// The name of the field that wants a form, for messages: "grammar" or "response_format".
const char* field_of_text_form(Fields&);

}  // namespace tern
