#include "apps/serve_settings.h"

#include <sys/resource.h>

#include <algorithm>

#include "apps/read_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "comm/socket.h"

namespace tern {
namespace {

std::vector<std::string> keys_of(const Options& options) {
  std::vector<std::string> keys;
  if (options.has("api-key")) keys.push_back(options.text("api-key"));
  if (options.has("api-key-file")) {
    const std::string text = read_text(options.text("api-key-file"));
    for (const std::string_view line : split(text, '\n'))
      if (!trim(line).empty()) keys.emplace_back(trim(line));
  }
  for (const std::string& key : keys)
    if (key.empty() || key.find_first_of(" \t\r\n") != std::string::npos)
      throw Error(ErrorKind::usage, "--api-key: a key is a word without blanks");
  if (options.has("api-key-file") && keys.empty())
    throw Error(ErrorKind::bad_file, "--api-key-file {}: holds no key, expected one a line",
                options.text("api-key-file"));
  return keys;
}

// Descriptors for all connections, and some for files; the limit of the process is raised as far as it may be.
int64_t connections_that_fit(int64_t wanted) {
  constexpr rlim_t kOthers = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t needed = static_cast<rlim_t>(wanted) + kOthers;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return wanted;
  const auto fit = static_cast<int64_t>(limit.rlim_cur) - static_cast<int64_t>(kOthers);
  if (fit < 1)
    throw Error(ErrorKind::does_not_fit, "the process may open {} files, too few for a server; raise ulimit -n",
                limit.rlim_cur);
  log_info("{} connections instead of {}: the process may open {} files (ulimit -n)", fit, wanted, limit.rlim_cur);
  return fit;
}

}  // namespace

ServiceSettings service_settings(const Options& options) {
  ServiceSettings s;
  s.host = options.text("host");
  s.port = static_cast<uint16_t>(options.integer("port"));
  s.rules.access = {
      .keys = keys_of(options), .hosts = options.list("allow-host"), .origins = options.list("allow-origin")};
  s.rules.access.hosts.push_back(s.host);
  s.rules.max_running = options.integer("max-running");
  s.rules.max_queue = options.integer("max-queue");
  s.http.body_bytes = options.integer("max-body");
  s.http.bodies_bytes = std::max<int64_t>(16 << 20, s.http.body_bytes);
  s.http.connections = connections_that_fit(options.integer("max-connections"));
  s.drain_s = options.real("drain");
  s.version = TERN_VERSION;
  if (!is_loopback(s.host) && s.rules.access.keys.empty())
    throw Error(ErrorKind::usage,
                "--host {}: other machines reach this address, and anybody there could ask; give a key (TERN_API_KEY "
                "or --api-key-file), "
                "or listen on 127.0.0.1",
                s.host);
  return s;
}

}  // namespace tern
