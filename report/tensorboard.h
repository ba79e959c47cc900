#pragma once
// TensorBoard event files, written and read without protobuf. A file is a sequence of records, each with a length and a
// payload, and a masked CRC-32C for both. A payload is an Event message of one of two forms: the file's version, or the
// scalars of a step.
// Source  TensorFlow's record format (tensorflow/core/lib/io/record_writer.h),
//         event.proto and summary.proto, from memory; checked against the tensorboard package, which wrote
//         tests/golden/report/events.golden and reads tern's files (dev/report/tensorboard_golden.py).

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

/// What an event file holds. A killed writer may leave a last record cut short, a power loss one that ends in zeros.
/// `events` has the events before such damage.
struct EventFile {
  double start_time_s = 0;
  std::vector<ScalarEvent> events;
  bool torn = false;
};

/// Reads an event file. A last record that is cut short sets `torn`, and is no error.
/// Errors  bad_file: a wrong CRC, not this format or version, a malformed message, a value that is no scalar.
///         The message names `place` and the byte offset.
EventFile parse_events(std::string_view bytes, const std::string& place);
/// Reads the events before the first damage, and sets `torn` if there is damage. A power loss may leave zeros after the
/// synced records, and intact records after the zeros, which are not read. Errors: as above, if no event stands before the
/// damage.
EventFile parse_sound_events(std::string_view bytes, const std::string& place);

}  // namespace tern
