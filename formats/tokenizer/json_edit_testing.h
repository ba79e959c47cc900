#pragma once
// Tests only: a sound tokenizer.json with one thing changed, and what the error says.

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"

namespace tern {

struct JsonEdit {
  const char* path;   // JSON pointer
  const char* value;  // what to put there; "" removes it
  const char* want;   // in the message
};

inline std::string with_edit(const std::string& sound, const JsonEdit& edit) {
  Json j = Json::parse(sound);
  if (*edit.value)
    j[Json::json_pointer(edit.path)] = Json::parse(edit.value);
  else
    j = j.patch({{{"op", "remove"}, {"path", edit.path}}});
  return j.dump();
}

}  // namespace tern
