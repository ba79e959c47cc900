#include "formats/safetensors/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"
#include "base/publish.h"
#include "base/utf8.h"
#include "formats/safetensors/layout.h"
#include "formats/safetensors/safetensors_impl.h"

namespace tern {
namespace {

int64_t checked_bytes(const TensorToWrite& t) {
  const int row = safetensors_type_row(t.dtype);
  const std::optional<int64_t> bytes = safetensors_bytes(t.shape, safetensors_types()[static_cast<size_t>(row)].bits);
  const auto wrong = [&](const std::string& what) {
    throw Error(ErrorKind::usage, "write_safetensors: tensor {}: {}", shown(t.name), what);
  };
  if (!bytes) wrong(fmt::format("shape [{}] is negative or too large", fmt::join(t.shape, ", ")));
  if (static_cast<int64_t>(t.shape.size()) > kSafetensorsMaxRank) wrong("more than 8 dimensions");
  if (static_cast<int64_t>(t.name.size()) > kSafetensorsMaxStringBytes) wrong("name longer than 1 MiB");
  if (!is_valid_utf8(t.name)) wrong("name is not UTF-8");
  if (t.name == "__metadata__") wrong("the format keeps this name for itself");
  if (t.produce && !t.bytes.empty()) wrong("both bytes and a producer are given");
  if (!t.produce && static_cast<int64_t>(t.bytes.size()) != *bytes)
    wrong(fmt::format("{} bytes given, shape [{}] of {} takes {}", t.bytes.size(), fmt::join(t.shape, ", "),
                      safetensors_name(t.dtype), *bytes));
  return *bytes;
}

/// The file's order: element type from the last row of the format's table to the first, then name.
std::vector<const TensorToWrite*> file_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
    const int row_a = safetensors_type_row(a->dtype), row_b = safetensors_type_row(b->dtype);
    return row_a != row_b ? row_a > row_b : a->name < b->name;
  });
  return order;
}

void check_names(std::span<const TensorToWrite> tensors) {
  if (static_cast<int64_t>(tensors.size()) > kSafetensorsMaxTensors)
    throw Error(ErrorKind::usage, "write_safetensors: {} tensors, at most a million fit a file", tensors.size());
  std::vector<std::string_view> names;
  for (const TensorToWrite& t : tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(ErrorKind::usage, "write_safetensors: tensor {} is given twice", shown(*twice));
}

std::string header_of(const std::vector<const TensorToWrite*>& order, const SafetensorsMetadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    const char* comma = "";
    for (const auto& [key, value] : metadata) {
      if (!is_valid_utf8(key) || !is_valid_utf8(value))
        throw Error(ErrorKind::usage, "write_safetensors: metadata {} is not UTF-8", shown(key));
      json += fmt::format("{}{}:{}", std::exchange(comma, ","), quote_json(key), quote_json(value));
    }
    json += "}";
  }
  int64_t offset = 0;
  for (const TensorToWrite* t : order) {
    const int64_t bytes = checked_bytes(*t);
    json +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json.size() > 1 ? "," : "",
                    quote_json(t->name), safetensors_name(t->dtype), fmt::join(t->shape, ","), offset, offset + bytes);
    offset += bytes;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  if (static_cast<int64_t>(json.size()) > kSafetensorsMaxHeaderBytes)
    throw Error(ErrorKind::usage,
                "write_safetensors: a header of {} bytes, the format allows 100 MB; write fewer tensors per file",
                json.size());
  std::string header(8, '\0');
  for (size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(json.size() >> (8 * i));
  return header + json;
}

}  // namespace

std::string safetensors_header(std::span<const TensorToWrite> tensors, const SafetensorsMetadata& metadata) {
  check_names(tensors);
  return header_of(file_order(tensors), metadata);
}

SafetensorsLayout safetensors_layout(std::span<const TensorToWrite> tensors, const SafetensorsMetadata& metadata) {
  std::vector<TensorToWrite> forms(tensors.begin(), tensors.end());
  for (TensorToWrite& t : forms) t.bytes = {}, t.produce = [](const ByteSink&) {};  // nothing is asked for
  check_names(forms);
  const std::vector<const TensorToWrite*> order = file_order(forms);
  SafetensorsLayout layout{.header = header_of(order, metadata), .begins = std::vector<int64_t>(forms.size())};
  layout.file_bytes = static_cast<int64_t>(layout.header.size());
  for (const TensorToWrite* t : order) {
    layout.begins[static_cast<size_t>(t - forms.data())] = layout.file_bytes;
    layout.file_bytes += checked_bytes(*t);
  }
  return layout;
}

SafetensorsWritten write_safetensors(Io& io, const std::string& path, std::span<const TensorToWrite> tensors,
                                     const SafetensorsMetadata& metadata) {
  check_names(tensors);
  const std::vector<const TensorToWrite*> order = file_order(tensors);
  const std::string header = header_of(order, metadata);

  OutputFile output(io, path);
  SafetensorsWritten written;
  const auto put = [&](std::span<const std::byte> bytes) {
    output.append(bytes);
    written.crc32c = crc32c(bytes, written.crc32c);
    written.file_bytes += static_cast<int64_t>(bytes.size());
  };
  put(std::as_bytes(std::span(header)));
  for (const TensorToWrite* t : order) {
    const int64_t begin = written.file_bytes, expected = checked_bytes(*t);
    if (t->produce) {
      t->produce(put);
    } else if (!t->bytes.empty()) {
      put(t->bytes);
    }
    if (written.file_bytes - begin != expected)
      throw Error(ErrorKind::usage, "write_safetensors: tensor {}: the producer gave {} bytes, its shape takes {}",
                  shown(t->name), written.file_bytes - begin, expected);
  }
  output.publish();
  return written;
}

}  // namespace tern
