#include "report/tensorboard.h"

#include <bit>
#include <cstring>
#include <span>

#include "base/crc32c.h"
#include "base/error.h"

namespace tern {
namespace {

static_assert(std::endian::native == std::endian::little, "the framing below copies little-endian numbers as they lie");

constexpr std::string_view kVersion = "brain.Event:2";
constexpr uint64_t kMaxRecordBytes = uint64_t{1}
                                     << 26;  // ours are under a kilobyte; bounds what a broken length can ask

// Protobuf fields used, by number. Event: 1 wall_time (double), 2 step (varint), 3 file_version (string), 5 summary,
// 9 source_metadata (newer writers add it to the first record). Summary: 1 value, repeated. Value: 1 tag, 2
// simple_value (float), 8 tensor, 9 metadata. TensorProto: 1 dtype, 2 shape, 5 float_val, packed.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint32_t field, WireType type) { return varint(field << 3 | type); }
std::string field_bytes(uint32_t field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string event_start(double time_s) { return key(1, kFixed64) + raw(time_s); }

// Walks over the fields of one message; every malformed byte is an Error with the record's place.
class Fields {
 public:
  Fields(std::string_view message, const std::string& place) : rest_(message), place_(place) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t k = take_varint();
    field = static_cast<uint32_t>(k >> 3);
    type = static_cast<WireType>(k & 7);
    switch (type) {
      case kVarint:
        number = take_varint();
        break;
      case kFixed64:
        bytes = take(8);
        break;
      case kFixed32:
        bytes = take(4);
        break;
      case kBytes:
        bytes = take(take_varint());
        break;
      default:
        fail("an unknown wire type");
    }
    return true;
  }

  bool is(uint32_t wanted, WireType wanted_type) const { return field == wanted && type == wanted_type; }
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::bad_file,
                "{}: {}, expected a TensorBoard event; the file is damaged or of another kind: move it away to go on",
                place_, what);
  }

  uint32_t field = 0;
  WireType type = kVarint;
  uint64_t number = 0;     // of a varint
  std::string_view bytes;  // of the other types

 private:
  std::string_view take(uint64_t count) {
    if (count > rest_.size()) fail("a field longer than its record");
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  uint64_t take_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than ten bytes");
  }

  std::string_view rest_;
  const std::string& place_;
};

std::pair<std::string, float> parse_value(std::string_view bytes, const std::string& place) {
  std::pair<std::string, float> value;
  bool scalar = false;
  Fields f(bytes, place);
  while (f.next()) {
    if (f.is(1, kBytes)) value.first = f.bytes;
    if (f.is(2, kFixed32)) value.second = f.as<float>(), scalar = true;
  }
  if (!scalar) f.fail("a value that is not a plain scalar");
  return value;
}

// The version of a first record, or the scalars of a later one.
struct ParsedEvent {
  ScalarEvent event;
  std::string version;
};

ParsedEvent parse_event(std::string_view payload, const std::string& place) {
  ParsedEvent out;
  Fields f(payload, place);
  while (f.next()) {
    if (f.is(1, kFixed64)) out.event.time_s = f.as<double>();
    if (f.is(2, kVarint)) out.event.step = static_cast<int64_t>(f.number);
    if (f.is(3, kBytes)) out.version = f.bytes;
    if (!f.is(5, kBytes)) continue;
    Fields summary(f.bytes, place);
    while (summary.next())
      if (summary.is(1, kBytes)) out.event.values.push_back(parse_value(summary.bytes, place));
  }
  return out;
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

std::string event_record(std::string_view payload) {
  const std::string length = raw(static_cast<uint64_t>(payload.size()));
  return length + raw(masked_crc32c(length)) + std::string(payload) + raw(masked_crc32c(payload));
}

std::string event_file_header(double time_s) { return event_record(event_start(time_s) + field_bytes(3, kVersion)); }

std::string event_scalars(const ScalarEvent& event) {
  std::string summary;
  for (const auto& [tag, value] : event.values)
    summary += field_bytes(1, field_bytes(1, tag) + key(2, kFixed32) + raw(value));
  const std::string step =
      event.step == 0 ? "" : key(2, kVarint) + varint(static_cast<uint64_t>(event.step));  // proto3
  return event_record(event_start(event.time_s) + step + field_bytes(5, summary));
}

namespace {

/// Into `file`, record by record, so that what was read before an error is there.
void read_events(std::string_view bytes, const std::string& place, EventFile& file) {
  size_t offset = 0;
  for (bool first = true; offset < bytes.size(); first = false) {
    const std::string here = fmt::format("{}: byte {}", place, offset);
    const auto damaged = [&](const char* what) {
      throw Error(
          ErrorKind::bad_file,
          "{}: {}, expected a TensorBoard record; the file is damaged or of another kind: move it away to go on", here,
          what);
    };
    const std::string_view rest = bytes.substr(offset);
    const auto number = [&]<class T>(size_t at, T) {
      T value;
      std::memcpy(&value, rest.data() + at, sizeof value);
      return value;
    };
    file.torn = rest.size() < 12;
    if (file.torn) break;
    if (number(8, uint32_t{}) != masked_crc32c(rest.substr(0, 8))) damaged("the CRC of a length does not match");
    const uint64_t length = number(0, uint64_t{});
    if (length > kMaxRecordBytes) damaged("a record of over 64 MiB");
    file.torn = rest.size() < 16 + length;
    if (file.torn) break;
    const std::string_view payload = rest.substr(12, length);
    if (number(12 + length, uint32_t{}) != masked_crc32c(payload)) damaged("the CRC of a record does not match");
    ParsedEvent parsed = parse_event(payload, here);
    if (first && parsed.version != kVersion) damaged("no version 'brain.Event:2' at the start");
    if (first) file.start_time_s = parsed.event.time_s;
    if (!parsed.event.values.empty()) file.events.push_back(std::move(parsed.event));
    offset += 16 + length;
  }
}

}  // namespace

EventFile parse_events(std::string_view bytes, const std::string& place) {
  EventFile file;
  read_events(bytes, place, file);
  return file;
}

EventFile parse_sound_events(std::string_view bytes, const std::string& place) {
  EventFile file;
  try {
    read_events(bytes, place, file);
  } catch (const Error&) {
    if (file.events.empty()) throw;
    file.torn = true;
  }
  return file;
}

}  // namespace tern
