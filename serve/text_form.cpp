#include "serve/text_form.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/json_schema.h"
#include "serve/api_error.h"

namespace tern {
namespace {

constexpr size_t kMostGbnfBytes = size_t{64}
                                  << 10;  // of its text: parsed, it takes up to 300 times as much for a moment

std::shared_ptr<Constraint> constraint_of_gbnf(const std::string& gbnf, const ServedModel& model,
                                               const std::string& place) {
  try {
    return std::make_shared<Constraint>(model.texts, parse_gbnf(gbnf, place));
  } catch (const Error& error) { throw ApiError(400, error.what(), place); }
}

std::shared_ptr<Constraint> read_format(Fields& fields, const ServedModel& model) {
  const Json* json = fields.value("response_format");
  if (!json) return nullptr;
  Fields format(*json, "response_format");
  const auto type = format.text("type");
  if (type != "text" && type != "json_object" && type != "json_schema")
    format.fail("type",
                type ? fmt::format("{}, expected \"text\", \"json_object\" or \"json_schema\"", describe_json(*type))
                     : "is missing");
  const Json* wrapped = type == "json_schema" ? format.value("json_schema") : nullptr;
  if (type == "json_schema" && !wrapped) format.fail("json_schema", "is missing");
  format.done();
  if (type == "text") return nullptr;
  if (!model.texts) fields.fail("response_format", model.why_no_texts);
  if (!wrapped) return constraint_of_gbnf(gbnf_of_any_object(), model, "response_format");
  Fields outer(*wrapped, "response_format.json_schema");
  const Json* schema = outer.value("schema");
  if (!schema) outer.fail("schema", "is missing");
  outer.ignore("name"), outer.ignore("description"), outer.ignore("strict");  // every schema is kept to the letter
  outer.done();
  const std::string place = "response_format.json_schema.schema";
  std::string gbnf;
  try {
    gbnf = gbnf_of_schema(*schema, place);
  } catch (const Error& error) { throw ApiError(400, error.what(), place); }
  return constraint_of_gbnf(gbnf, model, place);
}

std::shared_ptr<Constraint> read_grammar(Fields& fields, const ServedModel& model) {
  const std::string gbnf = fields.text("grammar").value_or("");
  if (gbnf.empty()) return nullptr;
  if (gbnf.size() > kMostGbnfBytes)
    fields.fail("grammar", fmt::format("has {} bytes, expected at most {}", gbnf.size(), kMostGbnfBytes));
  if (!model.texts) fields.fail("grammar", model.why_no_texts);
  return constraint_of_gbnf(gbnf, model, "grammar");
}

}  // namespace

std::shared_ptr<Constraint> read_text_form(Fields& fields, const ServedModel& model) {
  std::shared_ptr<Constraint> format = read_format(fields, model), grammar = read_grammar(fields, model);
  if (format && grammar) fields.fail("grammar", "is given together with response_format; give one of them");
  return format ? format : grammar;
}

const char* field_of_text_form(Fields& fields) {
  return fields.text("grammar").value_or("").empty() ? "response_format" : "grammar";
}

}  // namespace tern
