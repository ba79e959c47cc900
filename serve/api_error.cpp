#include "serve/api_error.h"

#include <nlohmann/json.hpp>

namespace tern {
namespace {

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

std::string error_body(const ApiError& e) {
  Json error = {{"message", e.what()}, {"type", type_of(e.status)}, {"param", nullptr}, {"code", nullptr}};
  if (!e.param.empty()) error["param"] = e.param;
  if (!e.code.empty()) error["code"] = e.code;
  return dump_json(Json{{"error", error}});
}

}  // namespace tern
