#include "train/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/crc32c.h"
#include "base/json.h"

namespace tern {
namespace {

// So that a run which goes on from it does not write a number that is refused.
constexpr int64_t kMostSamples = int64_t{1} << 53;
constexpr std::string_view kPrefix = R"({"crc32c":")";
constexpr std::string_view kZeros = "00000000";
constexpr int64_t kVersion = 1;

Json to_json(const Facts& facts) {
  Json object = Json::object();
  for (const auto& [key, value] : facts) object[key] = value;
  return object;
}

// Members read with their type checked, so that a wrong one is a sentence and not an exception of the library's.
struct Reader {
  std::string_view place;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: {}; this checkpoint cannot be trusted", place,
                fmt::format(format, std::forward<Args>(args)...));
  }
  const Json& member(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) fail("'{}' is missing", key);
    return object[key];
  }
  int64_t count(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0) ||
        (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}))
      fail("'{}' is {}, expected a whole number", key, value.dump());
    return value.get<int64_t>();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_string()) fail("'{}' is {}, expected text", key, value.dump());
    return value.get<std::string>();
  }
  Facts facts(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_object()) fail("'{}' is not an object", key);
    Facts facts;
    for (const auto& [name, fact] : value.items()) {
      if (!fact.is_string()) fail("'{}.{}' is not text", key, name);
      facts.emplace_back(name, fact.get<std::string>());
    }
    return facts;
  }
  std::vector<CheckpointFile> files(const Json& object) const {
    const Json& list = member(object, "files");
    if (!list.is_array() || list.empty()) fail("'files' is no list of files");
    std::vector<CheckpointFile> files;
    std::set<std::string> names;
    for (const Json& entry : list) {
      CheckpointFile file{text(entry, "name"), count(entry, "bytes"), 0};
      if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.')
        fail("file name '{}' is not a plain name", file.name);
      const int64_t crc = count(entry, "crc32c");
      if (crc > int64_t{UINT32_MAX}) fail("'crc32c' of '{}' has more than 32 bits", file.name);
      file.crc32c = static_cast<uint32_t>(crc);
      if (!names.insert(file.name).second) fail("file '{}' is named twice", file.name);  // each is read whole
      files.push_back(std::move(file));
    }
    return files;
  }
};

}  // namespace

std::string manifest_text(const Manifest& m) {
  Json files = Json::array();
  for (const CheckpointFile& f : m.files) files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"crc32c", f.crc32c}});
  Json json = {
      {"crc32c", kZeros},     {"format", "tern checkpoint"},     {"version", kVersion},           {"step", m.step},
      {"samples", m.samples}, {"settings", to_json(m.settings)}, {"made_by", to_json(m.made_by)}, {"files", files}};
  std::string text = dump_json(json) + "\n";
  text.replace(kPrefix.size(), kZeros.size(), fmt::format("{:08x}", crc32c(text)));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view place) {
  const Reader read{place};
  if (!text.starts_with(kPrefix) || text.size() < kPrefix.size() + kZeros.size())
    read.fail("{} bytes that do not begin as a manifest does", text.size());
  std::string zeroed(text);
  zeroed.replace(kPrefix.size(), kZeros.size(), kZeros);
  const std::string found(text.substr(kPrefix.size(), kZeros.size())), wanted = fmt::format("{:08x}", crc32c(zeroed));
  if (found != wanted) read.fail("CRC-32C of the text is {}, it says {}", wanted, found);

  const Json json = parse_json(text, place);
  if (read.text(json, "format") != "tern checkpoint") read.fail("'format' is not 'tern checkpoint'");
  if (const int64_t version = read.count(json, "version"); version != kVersion)
    throw OtherVersion("{}: checkpoint version {}, this tern reads version {}; use the tern that wrote it", place,
                       version, kVersion);
  Manifest m;
  m.step = read.count(json, "step");
  const int64_t samples = read.count(json, "samples");
  if (samples > kMostSamples) read.fail("'samples' is {}, beyond what a run counts ({})", samples, kMostSamples);
  m.samples = static_cast<uint64_t>(samples);
  m.settings = read.facts(json, "settings");
  m.made_by = read.facts(json, "made_by");
  m.files = read.files(json);
  return m;
}

}  // namespace tern
