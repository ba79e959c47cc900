#pragma once
// JSON whose integers must be kept exactly: requests to the server, arguments of tool calls, and conversations to train on.

#include <string_view>

#include "base/json.h"

namespace tern {

/// Like parse_json, but refuses an integer that fits neither int64 nor uint64 instead of rounding it to a double. Errors:
/// bad_file: those of parse_json; for such an integer "PLACE: byte N: NUMBER: …".
Json parse_exact_json(std::string_view text, std::string_view place, const JsonLimits& = {});

}  // namespace tern
