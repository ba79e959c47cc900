#pragma once
// Members of a JSON object by key, with errors that name place and key.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace tern {

/// "PLACE: KEY", or "PLACE.KEY" within a file.
std::string path_in(const std::string& place, std::string_view key);
/// The member; nullptr: none.
const Json* find_member(const Json& object, const char* key);
/// The member, which must be there; and a member of each type. low, high: the range of the number.
const Json& require_member(const Json& object, const char* key, const std::string& place);
std::string read_string(const Json& object, const char* key, const std::string& place);
bool read_bool(const Json& object, const char* key, std::optional<bool> fallback, const std::string& place);
int64_t read_int(const Json& object, const char* key, int64_t low, int64_t high, const std::string& place);
/// Checks that the value is an object.
void require_object(const Json&, const std::string& place);
bool decode_base64(std::string_view text, std::string& out);  // false: it is none
bool is_token_id(const Json&);                                // a whole number in [0, 2^31)
/// Checks that the object has no other key than the known ones.
void check_keys(const Json& object, std::initializer_list<const char*> known, const std::string& place);

}  // namespace tern
