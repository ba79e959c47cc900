#include "serve/access.h"

#include <algorithm>

#include <arpa/inet.h>

#include "base/text.h"

namespace tern {

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  if (secret.empty()) return false;
  unsigned char differs = given.size() != secret.size();
  size_t at = 0;
  for (const char c : given) {
    differs =
        static_cast<unsigned char>(differs | (static_cast<unsigned char>(c) ^ static_cast<unsigned char>(secret[at])));
    at = at + 1 < secret.size() ? at + 1 : 0;
  }
  return differs == 0;
}

bool key_is_known(const AccessRules& rules, std::string_view authorization) {
  if (rules.keys.empty()) return true;
  constexpr std::string_view kBearer = "bearer ";
  const bool bears = lowercase(std::string(authorization.substr(0, kBearer.size()))) == kBearer;
  const std::string_view given = bears ? trim(authorization.substr(kBearer.size())) : std::string_view();
  bool known = false;
  for (const std::string& key : rules.keys) known |= equal_in_constant_time(given, key);
  return known && bears;
}

bool host_is_known(const AccessRules& rules, std::string_view host) {
  std::string name(host);
  if (name.starts_with('[')) {
    const size_t end = name.find(']');
    if (end == std::string::npos) return false;
    const std::string_view rest = std::string_view(name).substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || rest.find_first_not_of("0123456789", 1) != rest.npos)) return false;
    in6_addr address;
    return ::inet_pton(AF_INET6, name.substr(1, end - 1).c_str(), &address) == 1;
  }
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    if (name.find_first_not_of("0123456789", colon + 1) != std::string::npos) return false;
    name.resize(colon);
  }
  name = lowercase(name);
  in_addr address;
  if (::inet_pton(AF_INET, name.c_str(), &address) == 1 || name == "localhost" || name.ends_with(".localhost"))
    return true;
  return std::any_of(rules.hosts.begin(), rules.hosts.end(),
                     [&](const std::string& known) { return lowercase(known) == name; });
}

bool origin_is_known(const AccessRules& rules, std::string_view origin, std::string_view host) {
  if (origin.empty()) return true;
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme) && !host.empty() && origin.substr(scheme.size()) == host) return true;
  return std::any_of(rules.origins.begin(), rules.origins.end(),
                     [&](const std::string& known) { return known == "*" || known == origin; });
}

}  // namespace tern
