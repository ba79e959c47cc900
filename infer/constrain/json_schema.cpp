#include "infer/constrain/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace tern {
namespace {

// What every document is made of. A \u escape of a surrogate is no character by itself, and is left out.
constexpr const char* kCommon = R"(
space ::= " "?
hex ::= [0-9a-fA-F]
plain ::= [^"\\\x00-\x1f]
escape ::= "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CeEfF] hex hex hex | [dD] [0-7] hex hex))
char ::= plain | escape
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,14})
number ::= integer ("." [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
value ::= string | number | boolean | null | array | object
array ::= "[" (value ("," space value)*)? "]"
object ::= "{" (string ":" space value ("," space string ":" space value)*)? "}"
)";

constexpr const char* kSilent[] = {"title",    "description", "default",  "examples",  "$schema", "$id",
                                   "$comment", "deprecated",  "readOnly", "writeOnly", "$defs",   "definitions"};
constexpr const char* kTypes[] = {"string", "number", "integer", "boolean", "null", "array", "object"};
constexpr size_t kMostKeyBytes = 256;
constexpr int64_t kMostCount = 100'000;
constexpr size_t kMostGrammarBytes = size_t{4} << 20;

// A key as a part of a JSON pointer.
std::string pointer_part(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

// A text between quotes of GBNF.
std::string gbnf_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02x}", c);
    else
      out += c;
  }
  return out + '"';
}

struct Writer {
  const Json& root;
  const std::string& place;
  std::string rules = kCommon;
  std::map<std::string, std::string> names = {};  // of rules, by the path of their schema
  int num_rules = 0;

  [[noreturn]] void fail(const std::string& path, const std::string& fact) const {
    throw Error(ErrorKind::usage, "{}: {}: {}", place, path.empty() ? "the schema" : path, fact);
  }
  std::string rule(const std::string& body) {
    const std::string name = fmt::format("r{}", num_rules++);
    define(name, body);
    return name;
  }
  void define(const std::string& name, const std::string& body) {
    rules += fmt::format("{} ::= {}\n", name, body);
    if (rules.size() > kMostGrammarBytes) fail("", "makes a grammar of more than 4 MiB");
  }

  std::string schema(const Json&, const std::string& path);
  std::string body(const Json&, const std::string& path);
  std::string reference(const Json&, const std::string& path);
  std::string choice(const Json& list, const std::string& path, bool one);
  std::string of_type(const std::string& type, const Json&, const std::string& path);
  std::string string_of(const Json&, const std::string& path);
  std::string array_of(const Json&, const std::string& path);
  std::string object_of(const Json&, const std::string& path);
  std::string other_key(const std::set<std::string>& named);
  void other_key_rules(const std::set<std::string>& named, const std::string& prefix, const std::string& name);
  int64_t count(const Json&, const char* key, int64_t fallback, const std::string& path) const;
  std::vector<std::string> types(const Json&, const std::string& path) const;
  void only(const Json&, const std::string& path, std::initializer_list<const char*> known) const;
  const Json& target(const Json&, const std::string& path) const;
};

bool has_type(const Json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == static_cast<double>(static_cast<int64_t>(
                                                                  std::clamp(value.get<double>(), -9e18, 9e18))));
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "array" ? value.is_array() : value.is_object();
}

// Every keyword is known, or the schema is refused: none is passed over.
void Writer::only(const Json& schema, const std::string& path, std::initializer_list<const char*> known) const {
  for (const auto& [key, value] : schema.items()) {
    const auto is = [&](const char* name) { return key == name; };
    if (key == "$id" && !path.empty()) fail(path, "\"$id\" is supported at the root only");
    if (std::any_of(std::begin(kSilent), std::end(kSilent), is) || std::any_of(known.begin(), known.end(), is))
      continue;
    fail(path, fmt::format("{} is not supported here", quote_json(key)));
  }
}

int64_t Writer::count(const Json& schema, const char* key, int64_t fallback, const std::string& path) const {
  const auto found = schema.find(key);
  if (found == schema.end()) return fallback;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0 && value <= kMostCount) || value != static_cast<double>(static_cast<int64_t>(value)))
    fail(path, fmt::format("\"{}\" is {}, expected a whole number from 0 to {}", key, dump_json(*found), kMostCount));
  return static_cast<int64_t>(value);
}

std::vector<std::string> Writer::types(const Json& schema, const std::string& path) const {
  const auto found = schema.find("type");
  if (found == schema.end()) return {"string", "number", "boolean", "null", "array", "object"};
  std::vector<std::string> list;
  for (const Json& one : found->is_array() ? *found : Json::array({*found})) {
    if (!one.is_string() || std::find(std::begin(kTypes), std::end(kTypes), one.get<std::string>()) == std::end(kTypes))
      fail(path,
           fmt::format(
               "\"type\" is {}, expected string, number, integer, boolean, null, array or object, or a list of these",
               dump_json(*found)));
    list.push_back(one.get<std::string>());
  }
  if (list.empty()) fail(path, "\"type\" is an empty list");
  return list;
}

const Json& Writer::target(const Json& schema, const std::string& path) const {
  const auto found = schema.find("$ref");
  const std::string ref = found->is_string() ? found->get<std::string>() : "";
  if (!ref.starts_with("#") || (ref.size() > 1 && ref[1] != '/') || ref.find('%') != std::string::npos)
    fail(path, fmt::format("\"$ref\" is {}; only places of the same document are supported (#, #/$defs/NAME)",
                           dump_json(*found)));
  try {
    return root.at(Json::json_pointer(ref.substr(1)));
  } catch (const Json::exception&) {
    fail(path, fmt::format("\"$ref\" is {}, and there is no such place", dump_json(*found)));
  }
}

// The rule of a schema; made once per path, so that schemas may refer to themselves.
std::string Writer::schema(const Json& schema, const std::string& path) {
  const auto known = names.find(path);
  if (known != names.end()) return known->second;
  const std::string name = fmt::format("r{}", num_rules++);
  names.emplace(path, name);
  define(name, body(schema, path));
  return name;
}

std::string Writer::body(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return schema.get<bool>() ? "value" : "[]";
  if (!schema.is_object()) fail(path, "expected an object, true or false");
  if (schema.contains("$ref")) return reference(schema, path);
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto found = schema.find(key);
    if (found == schema.end()) continue;
    only(schema, path, {key});
    if (!found->is_array() || found->empty()) fail(path, fmt::format("\"{}\" is no list of schemas", key));
    if (key[0] == 'a' && key[1] == 'l' && found->size() > 1) fail(path, "\"allOf\" of more than one is not supported");
    return choice(*found, fmt::format("{}/{}", path, key), key[0] == 'o');
  }
  for (const char* key : {"const", "enum"}) {
    const auto found = schema.find(key);
    if (found == schema.end()) continue;
    only(schema, path, {key, "type"});
    if (key[0] == 'e' && !found->is_array()) fail(path, "\"enum\" is no list");
    const auto allowed = types(schema, path);
    std::string out;
    for (const Json& one : key[0] == 'e' ? *found : Json::array({*found}))
      if (std::any_of(allowed.begin(), allowed.end(), [&](const auto& t) { return has_type(one, t); }))
        out += (out.empty() ? "" : " | ") + gbnf_text(dump_json(one));
    return out.empty() ? "[]" : out;
  }
  std::string out;
  only(schema, path,
       {"type", "minLength", "maxLength", "items", "prefixItems", "minItems", "maxItems", "properties", "required",
        "additionalProperties"});
  for (const std::string& type : types(schema, path)) out += (out.empty() ? "" : " | ") + of_type(type, schema, path);
  return out;
}

std::string Writer::reference(const Json& schema, const std::string& path) {
  only(schema, path, {"$ref"});
  const Json& to = target(schema, path);
  return this->schema(to, schema.at("$ref").get<std::string>().substr(1));
}

// oneOf means exactly one: as anyOf, where no document satisfies two.
std::string Writer::choice(const Json& list, const std::string& path, bool one) {
  std::set<std::string> taken;
  std::string out;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}/{}", path, i);
    out += (i > 0 ? " | " : "") + schema(list[i], at);
    if (!one || list.size() == 1) continue;
    const Json* s = &list[i];
    for (int hops = 0; s->is_object() && s->contains("$ref") && hops < 8; ++hops) s = &target(*s, at);
    std::set<std::string> own;
    const bool tells = s->is_object() && (s->contains("type") || s->contains("const") || s->contains("enum"));
    if (tells && s->contains("const"))
      own.insert(dump_json(s->at("const")));
    else if (tells && s->contains("enum"))
      for (const Json& v : s->at("enum")) own.insert(dump_json(v));
    else if (tells)
      for (const std::string& t : types(*s, at)) own.insert(t == "integer" ? "number" : t);
    bool apart = !own.empty();
    for (const std::string& o : own) apart &= taken.insert(o).second;
    if (!apart)
      fail(path, "\"oneOf\" is supported where its parts have different types or different constants; try \"anyOf\"");
  }
  if (one && list.size() > 1) {  // constants beside types
    bool constants = false, kinds = false;
    for (const std::string& t : taken)
      (std::find(std::begin(kTypes), std::end(kTypes), t) != std::end(kTypes) ? kinds : constants) = true;
    if (constants && kinds) fail(path, "\"oneOf\" of constants and types together is not supported; try \"anyOf\"");
  }
  return out;
}

std::string Writer::of_type(const std::string& type, const Json& schema, const std::string& path) {
  if (type == "string") return string_of(schema, path);
  if (type == "array") return array_of(schema, path);
  if (type == "object") return object_of(schema, path);
  return type;
}

std::string Writer::string_of(const Json& schema, const std::string& path) {
  const int64_t least = count(schema, "minLength", 0, path), most = count(schema, "maxLength", -1, path);
  if (most >= 0 && most < least) return "[]";
  if (least == 0 && most < 0) return "string";
  return fmt::format("\"\\\"\" char{{{},{}}} \"\\\"\"", least, most < 0 ? "" : std::to_string(most));
}

std::string Writer::array_of(const Json& schema, const std::string& path) {
  const int64_t least = count(schema, "minItems", 0, path), most = count(schema, "maxItems", -1, path);
  const auto first = schema.find("prefixItems"), rest = schema.find("items");
  if (first != schema.end() && (!first->is_array() || first->empty()))
    fail(path, "\"prefixItems\" is no list of schemas");
  if (rest != schema.end() && rest->is_array())
    fail(path, "\"items\" is a list; since 2020-12 that is \"prefixItems\"");
  if (most >= 0 && most < least) return "[]";
  const int64_t num_first = first == schema.end() ? 0 : static_cast<int64_t>(first->size());
  const std::string other = rest == schema.end() ? "value" : this->schema(*rest, path + "/items");
  // Behind the first i items; i runs down.
  const int64_t more_least = std::max<int64_t>(least - num_first, 0);
  std::string behind;
  if (most >= 0 && most <= num_first) {
    behind = "";
  } else {
    const std::string top = most < 0 ? "" : std::to_string(most - num_first);
    if (num_first > 0) {
      behind = rule(fmt::format("(\",\" space {}){{{},{}}}", other, more_least, top));
    } else {
      const std::string tail = fmt::format("{} (\",\" space {}){{{},{}}}", other, other,
                                           std::max<int64_t>(least - 1, 0), most < 0 ? "" : std::to_string(most - 1));
      return fmt::format("\"[\" ({}){} \"]\"", tail, least == 0 ? "?" : "");
    }
  }
  for (int64_t i = std::min(num_first, most < 0 ? num_first : most); i-- > 0;) {
    const std::string item = this->schema((*first)[static_cast<size_t>(i)], fmt::format("{}/prefixItems/{}", path, i));
    behind = rule(fmt::format("({}{} {}){}", i > 0 ? "\",\" space " : "", item, behind, i >= least ? "?" : ""));
  }
  return fmt::format("\"[\" {} \"]\"", behind);
}

// A key that is none of `named`: plain characters, one by one beside the trie of the names.
std::string Writer::other_key(const std::set<std::string>& named) {
  if (named.empty()) return "string";
  const std::string name = fmt::format("r{}", num_rules++);
  other_key_rules(named, "", name);
  return rule(fmt::format("\"\\\"\" {} \"\\\"\"", name));
}

void Writer::other_key_rules(const std::set<std::string>& named, const std::string& prefix, const std::string& name) {
  std::set<uint32_t> following;
  for (auto it = named.lower_bound(prefix); it != named.end() && it->starts_with(prefix); ++it)
    if (it->size() > prefix.size()) following.insert(decode_utf8(std::string_view(*it).substr(prefix.size())).code);
  std::string out = named.contains(prefix) ? "" : "\"\" | ", but;
  for (const uint32_t c : following) but += fmt::format("\\U{:08x}", c);
  out += fmt::format("[^\\x22\\\\\\x00-\\x1f{}] plain*", but);
  std::vector<std::pair<std::string, std::string>> deeper;
  for (const uint32_t c : following) {
    std::string longer = prefix;
    append_utf8(longer, c);
    deeper.emplace_back(longer, fmt::format("r{}", num_rules++));
    if (c >= 0x20 && c != '"' && c != '\\') out += fmt::format(" | [\\U{:08x}] {}", c, deeper.back().second);
  }
  define(name, out);
  for (const auto& [longer, its_name] : deeper) other_key_rules(named, longer, its_name);
}

// Properties in their order. Two rules per property: nothing was written yet (first), or something was (more).
std::string Writer::object_of(const Json& schema, const std::string& path) {
  const Json none = Json::object();
  const auto given = schema.find("properties"), others = schema.find("additionalProperties"),
             musts = schema.find("required");
  const Json& properties = given == schema.end() ? none : *given;
  if (!properties.is_object()) fail(path, "\"properties\" is no object");
  std::set<std::string> required, named;
  for (const Json& one : musts == schema.end() ? Json::array() : *musts) {
    if (!musts->is_array() || !one.is_string()) fail(path, "\"required\" is no list of names");
    required.insert(one.get<std::string>());
  }
  const bool has_others = others == schema.end() ? properties.empty() : !(others->is_boolean() && !others->get<bool>());
  const std::string other =
      others == schema.end() || !has_others ? "value" : this->schema(*others, path + "/additionalProperties");
  std::vector<std::pair<std::string, std::string>> keys;  // and the rule of the value
  for (const auto& [key, value] : properties.items())
    keys.emplace_back(key, this->schema(value, fmt::format("{}/properties/{}", path, pointer_part(key))));
  for (const std::string& key : required)
    if (!properties.contains(key)) keys.emplace_back(key, others != schema.end() && !has_others ? "[]" : other);
  for (const auto& [key, value] : keys) {
    named.insert(key);
    if (key.size() > kMostKeyBytes)
      fail(path, fmt::format("a property's name has {} bytes, expected at most {}", key.size(), kMostKeyBytes));
  }
  std::string first, more;
  if (has_others) {
    const std::string pair = rule(fmt::format("{} \":\" space {}", other_key(named), other));
    more = rule(fmt::format("(\",\" space {})*", pair));
    first = rule(fmt::format("({} {})?", pair, more));
  }
  for (size_t i = keys.size(); i-- > 0;) {
    const auto& [key, value] = keys[i];
    const std::string pair = rule(fmt::format("{} space {}", gbnf_text(quote_json(key) + ":"), value));
    const bool must = required.contains(key);
    const auto or_not = [&](const std::string& without) {
      return must ? std::string() : fmt::format(" | ({})", without);
    };
    const std::string begins = rule(fmt::format("({} {}){}", pair, more, or_not(first)));
    more = rule(fmt::format("(\",\" space {} {}){}", pair, more, or_not(more)));
    first = begins;
  }
  return fmt::format("\"{{\" {} \"}}\"", first);
}

}  // namespace

std::string gbnf_of_schema(const Json& schema, const std::string& place) {
  return gbnf_of_schemas({{"root", &schema, place}});
}

std::string gbnf_of_schemas(const std::vector<NamedSchema>& schemas) {
  std::string rules = kCommon;
  int num_rules = 0;
  for (const NamedSchema& s : schemas) {
    Writer writer{.root = *s.schema, .place = s.place, .rules = std::move(rules), .num_rules = num_rules};
    writer.define(s.rule, writer.schema(*s.schema, ""));
    rules = std::move(writer.rules), num_rules = writer.num_rules;
  }
  return rules;
}

std::string gbnf_literal(std::string_view text) { return gbnf_text(text); }

std::string gbnf_of_any_object() { return std::string(kCommon) + "root ::= object\n"; }

}  // namespace tern
