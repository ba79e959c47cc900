#pragma once
// JSON whose whole numbers must come out as they went in: what a chat template writes, or a tool is called with.

#include <string_view>

#include "base/json.h"

namespace tern {

/// parse_json, but a whole number that neither int64 nor uint64 holds is refused instead of rounded to a double. Errors: bad_file: those
/// of parse_json; "PLACE: byte N: NUMBER: …".
Json parse_exact_json(std::string_view text, std::string_view place, const JsonLimits& = {});

}  // namespace tern
