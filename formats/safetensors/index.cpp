#include "formats/safetensors/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/safetensors/safetensors_impl.h"

namespace tern {
namespace {

constexpr size_t kMaxIndexBytes = 64 << 20;

/// A name that cannot lead out of the directory of the index.
void check_shard_name(std::string_view place, const std::string& tensor, const std::string& file) {
  const auto wrong = [&](std::string_view why) {
    throw Error(
        ErrorKind::bad_file,
        "{}: weight_map: {} lies in {}, {}; expected a name like model-00001-of-00002.safetensors beside the index",
        place, shown(tensor), shown(file), why);
  };
  constexpr std::string_view kEnding = ".safetensors";
  if (file.find('/') != std::string::npos || file.find('\\') != std::string::npos) wrong("a path");
  if (file.find('\0') != std::string::npos) wrong("a name with a zero byte");
  if (file.size() > 255) wrong("a name no disk can hold");
  if (file.starts_with(".")) wrong("a hidden or parent name");
  if (!file.ends_with(kEnding) || file.size() == kEnding.size()) wrong("no .safetensors file");
}

std::optional<int64_t> read_total_size(std::string_view place, const Json& metadata) {
  if (!metadata.is_object())
    throw Error(ErrorKind::bad_file, "{}: metadata is {}, expected an object", place, metadata.type_name());
  const auto it = metadata.find("total_size");
  if (it == metadata.end()) return {};
  // Some writers gave a float; it means the same while it is whole.
  const bool whole =
      it->is_number_float() && *it >= 0.0 && *it < 9e15 && it->get<double>() == static_cast<double>(it->get<int64_t>());
  if (!whole && (!it->is_number_integer() || *it < 0 || *it > INT64_MAX))
    throw Error(ErrorKind::bad_file, "{}: metadata.total_size is {}, expected a number of bytes", place,
                shown(it->dump()));
  return it->get<int64_t>();
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, std::string_view place) {
  const Json json =
      parse_json(text, place, {.max_bytes = kMaxIndexBytes, .max_string_bytes = size_t{kSafetensorsMaxStringBytes}});
  if (!json.is_object())
    throw Error(ErrorKind::bad_file, "{}: the index is {}, expected an object", place, json.type_name());
  SafetensorsIndex index;
  bool has_map = false;
  for (const auto& [key, value] : json.items()) {
    if (key == "metadata") {
      index.total_size = read_total_size(place, value);
    } else if (key == "weight_map") {
      has_map = true;
      if (!value.is_object())
        throw Error(ErrorKind::bad_file, "{}: weight_map is {}, expected an object of tensor names and files", place,
                    value.type_name());
      if (value.size() > static_cast<size_t>(kSafetensorsMaxTensors))
        throw Error(ErrorKind::bad_file, "{}: weight_map names {} tensors, expected at most a million", place,
                    value.size());
      for (const auto& [tensor, file] : value.items()) {
        if (!file.is_string())
          throw Error(ErrorKind::bad_file, "{}: weight_map: {} is {}, expected a file name", place, shown(tensor),
                      file.type_name());
        check_shard_name(place, tensor, file.get_ref<const std::string&>());
        index.weight_map.emplace_back(tensor, file.get<std::string>());
      }
    } else {
      throw Error(ErrorKind::bad_file, "{}: unknown key {}, expected metadata and weight_map", place, shown(key));
    }
  }
  if (!has_map) throw Error(ErrorKind::bad_file, "{}: no weight_map; no index of a sharded model?", place);
  if (index.weight_map.empty())
    throw Error(ErrorKind::bad_file, "{}: weight_map is empty, expected the model's tensors", place);
  std::sort(index.weight_map.begin(), index.weight_map.end());
  return index;
}

Weights::Weights(const std::string& path) : path_(path) {
  if (!path.ends_with(".json")) {
    files_.emplace_back(path);
    for (uint32_t t = 0; t < files_[0].size(); ++t) by_name_.push_back({0, t});
  } else {
    const MappedFile text(path);
    const std::span<const std::byte> bytes = text.bytes();
    const SafetensorsIndex index =
        parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);

    std::map<std::string_view, uint32_t> number;  // shard name → files_
    for (const auto& [tensor, file] : index.weight_map) number.emplace(file, 0);
    const std::string directory = parent_path(path);
    std::string missing;
    for (auto& [name, i] : number) {
      const std::string shard = join_path(directory, name);
      if (!real_io().stat(shard)) {
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
        continue;
      }
      i = static_cast<uint32_t>(files_.size());
      files_.emplace_back(shard);
    }
    if (!missing.empty())
      throw Error(ErrorKind::bad_file, "{}: {} not in {}; the download is incomplete, fetch the missing shards", path,
                  missing, directory);

    size_t num_tensors = 0;
    for (uint32_t f = 0; f < files_.size(); ++f) {
      for (uint32_t t = 0; t < files_[f].size(); ++t) {
        const std::string_view name = files_[f][t].name;
        const auto it = std::lower_bound(index.weight_map.begin(), index.weight_map.end(), name,
                                         [](const auto& entry, std::string_view n) { return entry.first < n; });
        if (it == index.weight_map.end() || it->first != name)
          throw Error(ErrorKind::bad_file,
                      "{}: {} has tensor {}, which the index does not name; files of two models mixed?", path,
                      files_[f].path(), shown(name));
        if (number.at(it->second) != f)
          throw Error(ErrorKind::bad_file, "{}: tensor {} lies in {}, the index says {}; files of two models mixed?",
                      path, shown(name), file_name(files_[f].path()), it->second);
        by_name_.push_back({f, t});
      }
      num_tensors += files_[f].size();
    }
    if (num_tensors < index.weight_map.size())
      for (const auto& [tensor, file] : index.weight_map)
        if (!files_[number.at(file)].find(tensor))
          throw Error(ErrorKind::bad_file,
                      "{}: tensor {} is not in {}, where the index places it; the shard is of another model or damaged",
                      path, shown(tensor), file);
    if (index.total_size && *index.total_size != data_bytes())
      notes_.push_back(fmt::format("{}: metadata.total_size says {} bytes, the tensors take {}", path,
                                   *index.total_size, data_bytes()));
  }
  std::sort(by_name_.begin(), by_name_.end(), [&](const Place& a, const Place& b) {
    return files_[a.file][a.tensor].name < files_[b.file][b.tensor].name;
  });
}

TensorView Weights::operator[](size_t i) const {
  const Place& p = by_name_.at(i);
  return files_[p.file][p.tensor];
}

std::optional<TensorView> Weights::find(std::string_view name) const {
  for (const Safetensors& file : files_)
    if (const std::optional<TensorView> found = file.find(name)) return found;
  return {};
}

TensorView Weights::get(std::string_view name) const {
  const std::optional<TensorView> found = find(name);
  if (!found) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < size(); ++i) names.push_back((*this)[i].name);
    throw Error(ErrorKind::bad_file, "{}: no tensor {} among {}{}", path_, shown(name), size(),
                nearest_tensor(name, names));
  }
  check_readable(path_, *found);
  return *found;
}

std::optional<Weights::Place> Weights::place_of(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](const Place& p, std::string_view n) {
    return files_[p.file][p.tensor].name < n;
  });
  if (it == by_name_.end() || files_[it->file][it->tensor].name != name) return std::nullopt;
  return *it;
}

std::optional<Weights::InFile> Weights::where(std::string_view name) const {
  const auto place = place_of(name);
  if (!place) return {};
  const Safetensors& file = files_[place->file];
  return InFile{static_cast<int>(place->file), file.offset_of(file[place->tensor])};
}

void Weights::dont_need(std::string_view name) const {
  if (const auto place = place_of(name)) files_[place->file].dont_need(place->tensor);
}

void Weights::populate(std::string_view name) const {
  if (const auto place = place_of(name)) files_[place->file].populate(place->tensor);
}

int64_t Weights::data_bytes() const {
  int64_t sum = 0;
  for (const Safetensors& file : files_) sum += file.data_bytes();
  return sum;
}

}  // namespace tern
