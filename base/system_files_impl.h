#pragma once
// Reads the small texts below /proc and /sys.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// The text of a file; "" if it does not exist or cannot be read, as control groups and /sys differ from kernel to kernel.
std::string read_system_file(const std::string& path);
/// The value of `key` in bytes, in a text with lines such as "KEY:   123 kB" (/proc/meminfo, /proc/self/status); 0: no such key.
int64_t field_bytes(const std::string& text, std::string_view key);

}  // namespace tern
