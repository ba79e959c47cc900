#pragma once
// TensorBoard event files, written and read back without protobuf: records of a length and a payload, each with a
// masked CRC32C; the payload is an Event message, of which two shapes are used (the file's version; scalars at a step).
// Source  TensorFlow's record format (tensorflow/core/lib/io/record_writer.h) and
//         event.proto, summary.proto (recalled); judged by the tensorboard package,
//         which wrote tests/golden/report/events.golden and reads what we write
//         (dev/report/tensorboard_golden.py).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

/// The values of one step.
struct ScalarEvent {
  int64_t step = 0;
  double time_s = 0;  // since 1970
  std::vector<std::pair<std::string, float>> values;
};

/// A CRC as the record format stores it: rotated right by 15 bits, plus a constant, so that a CRC over data that itself
/// holds CRCs stays useful.
uint32_t masked_crc32c(std::string_view bytes);

/// One record: u64 length, u32 masked CRC of the length, the payload, u32 masked CRC of the payload; little-endian.
std::string event_record(std::string_view payload);

/// The record every event file begins with: the format's version, "brain.Event:2".
std::string event_file_header(double time_s);

/// The record of one event.
std::string event_scalars(const ScalarEvent& event);

/// What an event file holds. A killed writer leaves a last record cut short, a power loss one that ends in zeros.
/// Neither is an event, nor is anything after it.
struct EventFile {
  double start_time_s = 0;
  std::vector<ScalarEvent> events;
  bool torn = false;
};

/// Reads an event file. Errors  bad_file: a wrong CRC, not this format or
///         version, a malformed message, a value that is no
///         scalar; `place` and the byte offset are named.
EventFile parse_events(std::string_view bytes, const std::string& place);
/// Reads the events before the first damage, and sets `torn` if there is any: a power loss may leave zeros after the
/// records that had been synced, and sound records after the zeros. Errors: as above if no event stands before the
/// damage.
EventFile parse_sound_events(std::string_view bytes, const std::string& place);

}  // namespace tern
