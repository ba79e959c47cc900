#include "hardware/machines.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "hardware/cluster.h"

namespace tern {

std::string cluster_text(const std::string& path_or_name) {
  const std::string wanted = lowercase(path_or_name);
  std::vector<std::string_view> names;
  std::vector<std::string> kinds;  // of one device: "a100" is two
  for (const MachineFile& file : machine_files()) {
    names.push_back(file.name);
    if (file.name.starts_with(wanted + "-")) kinds.push_back(fmt::format("'{}'", file.name));
  }
  for (const MachineFile& file : machine_files())
    if (file.name == wanted && !real_io().stat(path_or_name)) return std::string(file.toml);
  if (path_or_name.find_first_of("/.") == std::string::npos && !real_io().stat(path_or_name))
    throw Error(ErrorKind::bad_file, "{}: neither a cluster file nor one of the ready machines ({}){}",
                make_printable(path_or_name), join({names.begin(), names.end()}, ", "),
                kinds.empty() ? did_you_mean(path_or_name, names) : "; did you mean " + join(kinds, " or ") + "?");
  return real_io().read(path_or_name);
}

Cluster find_cluster(const std::string& path_or_name) {
  const bool is_file = real_io().stat(path_or_name).has_value();
  return parse_cluster(cluster_text(path_or_name), is_file ? path_or_name : "machine " + path_or_name);
}

}  // namespace tern
