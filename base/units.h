#pragma once
// Numbers as people write and read them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

std::string format_bytes(int64_t bytes);                     // "1023 B", "1.50 MiB", "20.0 GiB": bytes, or three digits
std::string format_count(double count);                      // "950", "1.2k", "10.3M", "7.0B"
std::string format_seconds(double seconds);                  // "85 ms", "12.3 s", "4m05s", "3h02m", "2d03h"
std::string format_with_commas(int64_t value);               // "1,234,567"
std::string counted(int64_t number, std::string_view noun);  // "1 document", "1,200 documents"

/// "1048576", "512KiB", "1.5GiB", "2G" (binary, like KiB…PiB); "500MB", "500 kB" (decimal). Case does not matter.
/// Sizes in units above B are rounded to whole bytes. Errors: usage, naming `place`: no size, "1.5B", below 0, above 2^62.
int64_t parse_bytes(std::string_view text, std::string_view place);
/// "90", "90s", "250ms", "10m", "1.5h", "2d". Errors: usage, naming `place`.
double parse_seconds(std::string_view text, std::string_view place);
/// "300B", "1.5T", "2e12", "40k", "7M": as format_count writes it; case does not matter. Errors: usage, naming `place`.
double parse_count(std::string_view text, std::string_view place);
/// An integer; "_" may stand between digits. Errors: usage, naming `place`.
int64_t parse_integer(std::string_view text, std::string_view place);
/// A finite number. Errors: usage, naming `place`.
double parse_real(std::string_view text, std::string_view place);

}  // namespace tern
