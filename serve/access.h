#pragma once
// Who may send requests: keys, the names by which clients may address the server, and pages of other sites.

#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct AccessRules {
  std::vector<std::string> keys;     // a request needs one of them; empty: it needs none
  std::vector<std::string> hosts;    // names that a request's Host may have, beside addresses and localhost
  std::vector<std::string> origins;  // sites whose pages may send requests: "https://chat.example.org", or "*" for all
};
/// Whether both texts are equal, and not empty. The time that this takes depends on nothing but the length of `given`.
bool equal_in_constant_time(std::string_view given, std::string_view secret);
/// Whether the rules have no keys, or the header Authorization is "Bearer KEY" with one of them. All keys are compared, even
/// after one is equal.
bool key_is_known(const AccessRules&, std::string_view authorization);
/// Whether the header Host, with or without a port, is an address, localhost (or a name that ends in .localhost) or a name of
/// the rules. A hostile site can let its own name point to this machine (DNS rebinding); its pages then send this name as Host,
/// and are refused.
bool host_is_known(const AccessRules&, std::string_view host);
/// Whether the header Origin is empty (no page sent the request), names the server's own page (http or https, and the header Host), or is an
/// origin of the rules.
bool origin_is_known(const AccessRules&, std::string_view origin, std::string_view host);

}  // namespace tern
