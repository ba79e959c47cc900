#pragma once
// Turns a JSON Schema into a grammar of the documents that satisfy it.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

/// The grammar, as GBNF, of documents that satisfy `schema`. Keys come in the order of `properties`, other keys after them. There is at most one
/// space after each ',' and ':'. Numbers have up to 15 digits before and after the point. Every document of the grammar satisfies the schema,
/// and every document that satisfies the schema can be spelt so that it is in the grammar.
/// Keywords  type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
///           minLength, maxLength, anyOf, oneOf (of distinct types or constants), allOf (of one), $ref into the document,
///           $defs, definitions, true and false. Titles, descriptions, defaults and examples have no effect. If additionalProperties is not
///           given, an object with `properties` has no other keys.
/// Errors  usage: PLACE, the path of the schema and the keyword that is not supported, or what is wrong with its value.
/// Source  JSON Schema 2020-12, core and validation (recalled).
std::string gbnf_of_schema(const Json& schema, const std::string& place);
/// A schema, and the name of its rule in a grammar of several schemas.
struct NamedSchema {
  std::string rule;  // must not begin with r and a digit, nor be a rule of gbnf_of_any_object
  const Json* schema;
  std::string place;
};
/// Rules for several schemas, without a rule `root`. Errors: as above.
std::string gbnf_of_schemas(const std::vector<NamedSchema>&);
/// A text escaped for GBNF, without the quotes around it.
std::string gbnf_literal(std::string_view text);
/// Rules for any JSON object.
std::string gbnf_of_any_object();

}  // namespace tern
