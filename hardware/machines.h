#pragma once
// Built-in cluster files by name, for use before anything is measured. Facts with their sources, in
// hardware/machines/*.toml.

#include <span>
#include <string>
#include <string_view>

#include "hardware/cluster.h"

namespace tern {

struct MachineFile {
  std::string_view name, toml;
};
/// Sorted by name.
std::span<const MachineFile> machine_files();

/// Takes a cluster file's path, or the name of a built-in machine. Errors: as read_cluster; bad_file if it is neither,
/// with the nearest name.
Cluster find_cluster(const std::string& path_or_name);
/// The TOML text of that file or machine. Errors: bad_file as find_cluster, if it is neither.
std::string cluster_text(const std::string& path_or_name);

}  // namespace tern
