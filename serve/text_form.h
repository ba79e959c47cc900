#pragma once
// What a request asks of the form of its text.

#include <memory>

#include "serve/fields.h"
#include "serve/served_model.h"

namespace tern {

class Constraint;  // infer/constrain/constraint.h

/// Of `response_format` (a JSON object, or one that satisfies a schema) and `grammar` (GBNF, as llama.cpp's server takes it; an
/// empty text is none). Null: any text. Read on the I/O thread: a grammar's text and its states are bounded, and time is linear
/// in them. Errors: ApiError that names the field, with a grammar's line or the place in a schema; both fields given.
std::shared_ptr<Constraint> read_text_form(Fields&, const ServedModel&);
/// The field that asked, for messages: "grammar" or "response_format".
const char* field_of_text_form(Fields&);

}  // namespace tern
