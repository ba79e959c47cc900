#pragma once
// JSON Schema to a grammar of the documents that satisfy it.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

/// The grammar, as GBNF, of documents that satisfy `schema`: keys in the order of `properties`, others behind them; at most one
/// space after each ',' and ':'; numbers of up to 15 digits before and behind the point. So every
/// document of the grammar satisfies the schema, and every document that satisfies it has a spelling in the grammar.
/// Keywords  type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
///           minLength, maxLength, anyOf, oneOf (of distinct types or constants), allOf (of one), $ref into the document,
///           $defs, definitions, true and false; titles, descriptions, defaults and examples say nothing.
///           Where additionalProperties is not given, an object with `properties` has no others.
/// Errors  usage: PLACE, the path of the schema and the keyword that is not supported, or what is wrong with its value.
/// Source  JSON Schema 2020-12, core and validation (recalled).
std::string gbnf_of_schema(const Json& schema, const std::string& place);
/// Several schemas in one grammar, each with a rule of the caller's name; there is no `root`. Errors: as above.
struct NamedSchema {
  std::string rule;  // must not begin with r and a digit, nor be a rule of gbnf_of_any_object
  const Json* schema;
  std::string place;
};
std::string gbnf_of_schemas(const std::vector<NamedSchema>&);
/// A text between the quotes of GBNF.
std::string gbnf_literal(std::string_view text);
/// Any JSON object.
std::string gbnf_of_any_object();

}  // namespace tern
