#pragma once
// Members of a JSON object by key, with errors that name place and key.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace tern {

std::string path_in(const std::string& place, std::string_view key);
const Json* find_member(const Json& object, const char* key);
const Json& require_member(const Json& object, const char* key, const std::string& place);
std::string read_string(const Json& object, const char* key, const std::string& place);
bool read_bool(const Json& object, const char* key, std::optional<bool> fallback, const std::string& place);
int64_t read_int(const Json& object, const char* key, int64_t low, int64_t high, const std::string& place);
void require_object(const Json&, const std::string& place);
bool decode_base64(std::string_view text, std::string& out);  // false: it is none
bool is_token_id(const Json&);                                // a whole number in [0, 2^31)
void check_keys(const Json& object, std::initializer_list<const char*> known, const std::string& place);

}  // namespace tern
