#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "serve/api_error.h"
#include "serve/fields.h"

namespace tern {

int adapter_called(const ServedModel& model, const std::string& name) {
  if (name == model.name) return kNoAdapter;
  const auto at = std::ranges::find(model.adapters, name);
  if (at != model.adapters.end()) return static_cast<int>(at - model.adapters.begin());
  std::string there = quote_json(model.name);
  for (const std::string& adapter : model.adapters) there += ", " + quote_json(adapter);
  throw ApiError(404, fmt::format("model: there is no {}; this server has {}", describe_json(name), there), "model",
                 "model_not_found");
}

}  // namespace tern
