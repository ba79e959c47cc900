#pragma once
// Who may ask: keys, the name a server is called by, and pages of other sites.

#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct AccessRules {
  std::vector<std::string> keys;     // empty: everybody may
  std::vector<std::string> hosts;    // names for the server in a request's Host, beside addresses and localhost
  std::vector<std::string> origins;  // "https://chat.example.org", or "*": pages whose scripts may ask
};

/// Whether both are the same, in a time that depends on the length of `given` alone.
bool equal_in_constant_time(std::string_view given, std::string_view secret);
/// "Bearer KEY" of the header Authorization. All keys are compared, even after one fits.
bool key_is_known(const AccessRules&, std::string_view authorization);
/// The header Host, with or without a port: an address, localhost or a name of the rules. A page whose site has its own
/// name point here (DNS rebinding) sends that name, so it is refused.
bool host_is_known(const AccessRules&, std::string_view host);
/// The header Origin: empty (no page asks), the server's own page (http or https, and the header Host), or one of the
/// rules.
bool origin_is_known(const AccessRules&, std::string_view origin, std::string_view host);

}  // namespace tern
