#pragma once
// Reads the small texts below /proc and /sys.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// "" for what is not there or cannot be read: control groups and /sys differ from kernel to kernel.
std::string read_system_file(const std::string& path);
/// The value of "Key:   123 kB" in the manner of /proc/meminfo and /proc/self/status, in bytes; 0: no such key.
int64_t field_bytes(const std::string& text, std::string_view key);

}  // namespace tern
