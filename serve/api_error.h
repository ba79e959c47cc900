#pragma once
// An error in the form that clients of the OpenAI interface expect.

#include <stdexcept>
#include <string>

#include "base/json.h"

namespace tern {

/// Thrown for a request that is refused.
struct ApiError : std::runtime_error {
  /// `at`: the field at fault, as "messages[2].content"; empty: none. `word`: a word for programs; may be empty.
  ApiError(int http_status, const std::string& message, std::string at = "", std::string word = "")
      : std::runtime_error(message), status(http_status), param(std::move(at)), code(std::move(word)) {}
  int status;
  std::string param, code;
};

/// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
std::string error_body(const ApiError&);

}  // namespace tern
