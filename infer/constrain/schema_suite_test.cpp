// The official tests of JSON Schema 2020-12 (tests/golden/json_schema): what is invalid is never written, what is valid can be, and
// a keyword that is not supported is refused by its name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "infer/constrain/automaton.h"
#include "infer/constrain/automaton_testing.h"
#include "infer/constrain/json_schema.h"

namespace tern {
namespace {

enum class Numbers { as_they_are, whole, with_point };

// A document in one of its spellings: of numbers that are whole, and of the order of its own keys.
std::string spelled(const Json& document, Numbers numbers, std::span<const std::string> keys = {}) {
  std::string out;
  if (document.is_object()) {
    std::vector<std::string> own(keys.begin(), keys.end());
    if (keys.empty())
      for (const auto& [key, value] : document.items()) own.push_back(key);
    for (const std::string& key : own)
      out += (out.empty() ? "" : ",") + quote_json(key) + ":" + spelled(document[key], numbers);
    return "{" + out + "}";
  }
  if (document.is_array()) {
    for (const Json& one : document) out += (out.empty() ? "" : ",") + spelled(one, numbers);
    return "[" + out + "]";
  }
  if (!document.is_number() || numbers == Numbers::as_they_are ||
      std::floor(document.get<double>()) != document.get<double>())
    return dump_json(document);
  return fmt::format("{:.0f}{}", document.get<double>(), numbers == Numbers::whole ? "" : ".0");
}

bool has_a_spelling(Automaton& automaton, const Json& document) {
  std::vector<std::string> keys;
  if (document.is_object())
    for (const auto& [key, value] : document.items()) keys.push_back(key);
  std::ranges::sort(keys);
  do
    for (const Numbers n : {Numbers::as_they_are, Numbers::whole, Numbers::with_point})
      if (takes(automaton, spelled(document, n, keys))) return true;
  while (std::ranges::next_permutation(keys).found);
  return false;
}

// Of docs/structured.md: an object with properties has no others where additionalProperties is not given. The same of each part
// of an anyOf.
bool is_left_out(const Json& schema, const Json& document) {
  if (schema.is_object() && schema.contains("anyOf"))
    return std::ranges::any_of(schema["anyOf"], [&](const Json& part) { return is_left_out(part, document); });
  const Json properties = schema.is_object() ? schema.value("properties", Json::object()) : Json::object();
  if (!document.is_object() || properties.empty() || schema.contains("additionalProperties")) return false;
  for (const auto& [key, value] : document.items())
    if (!properties.contains(key)) return true;
  return false;
}

TEST(JsonSchemaSuite, InvalidIsNeverWrittenAndValidCanBe) {
  const std::string text = real_io().read(source_dir() + "/tests/golden/json_schema/draft2020-12.jsonl");
  int schemas = 0, valid = 0, invalid = 0, without = 0;
  std::map<std::string, int> refused;
  bool first = true;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty() || std::exchange(first, false)) continue;
    const Json group = parse_json(line, "a group");
    const Json& schema = group["schema"];
    std::optional<Automaton> automaton;
    try {
      automaton.emplace(parse_gbnf(gbnf_of_schema(schema, "schema"), "schema"));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
      const std::string why = error.what();
      EXPECT_TRUE(why.find('"') != std::string::npos || why.find("no text can ever satisfy it") != std::string::npos)
          << "names no keyword: " << why << " : " << schema;
      ++refused[group["file"]];
      continue;
    }
    ++schemas;
    for (const Json& test : group["tests"]) {
      const bool is = has_a_spelling(*automaton, test[0]);
      ++(test[1].get<bool>() ? valid : invalid);
      const bool lacks = test[1].get<bool>() && !is && is_left_out(schema, test[0]);
      without += lacks;
      EXPECT_EQ(is, test[1].get<bool>() && !lacks) << group["file"] << ": " << schema << " : " << test[0];
    }
  }
  std::printf("%d schemas: %d valid documents (%d left out), %d invalid; refused by name:", schemas, valid, without,
              invalid);
  int all = 0;
  for (const auto& [file, count] : refused) std::printf(" %s %d", file.c_str(), count), all += count;
  std::printf(" (%d)\n", all);
  EXPECT_GT(schemas, 100);
  EXPECT_GT(valid, 170);
  EXPECT_GT(invalid, 170);
  EXPECT_LT(without, 5);
}

}  // namespace
}  // namespace tern
