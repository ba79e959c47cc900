#pragma once
// Ready cluster files by name: what a person has before anything was measured. Facts with their sources, in
// machines/*.toml.

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

/// A cluster file's path, or a ready machine's name. Errors: as read_cluster; bad_file for what is neither, with the
/// nearest name.
Cluster find_cluster(const std::string& path_or_name);
/// The TOML text of that file or machine. Errors: as find_cluster, for what is neither.
std::string cluster_text(const std::string& path_or_name);

}  // namespace tern
