#include "quantize/code_store.h"

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

constexpr std::string_view kTables = ".tables";

std::string metadata_of(const std::string& settings, uint32_t crc) {
  return fmt::format("{}, weights {:08x}", settings, crc);
}

std::string checksum_of(const UnitCodes& codes) {
  uint32_t crc = 0;
  for (const auto& [name, matrix] : codes)
    crc = crc32c(std::as_bytes(std::span(matrix.tables)), crc32c(matrix.rows, crc32c(name, crc)));
  return fmt::format("{:08x}", crc);
}

UnitCodes codes_in(const Safetensors& file) {
  UnitCodes codes;
  for (size_t i = 0; i < file.size(); ++i) {
    const TensorView view = file[i];
    if (view.name.ends_with(kTables)) {
      const auto* begin = reinterpret_cast<const int8_t*>(view.bytes.data());
      codes[std::string(view.name.substr(0, view.name.size() - kTables.size()))].tables.assign(
          begin, begin + view.bytes.size());
    } else {
      codes[std::string(view.name)].rows.assign(view.bytes.begin(), view.bytes.end());
    }
  }
  return codes;
}

}  // namespace

std::string CodeStore::file_of(int unit) const {
  return join_path(directory_, fmt::format("unit-{:05}.safetensors", unit));
}

void CodeStore::write(int unit, uint32_t weights_crc32c, const UnitCodes& codes) {
  make_dirs(io_, directory_);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, matrix] : codes) {
    tensors.push_back({name, DType::u8, {static_cast<int64_t>(matrix.rows.size())}, matrix.rows, {}});
    if (!matrix.tables.empty())
      tensors.push_back({name + std::string(kTables),
                         DType::i8,
                         {static_cast<int64_t>(matrix.tables.size())},
                         std::as_bytes(std::span(matrix.tables)),
                         {}});
  }
  write_safetensors(io_, file_of(unit), tensors,
                    {{"run", metadata_of(settings_, weights_crc32c)}, {"codes", checksum_of(codes)}});
}

std::optional<UnitCodes> CodeStore::read(int unit, uint32_t weights_crc32c) const {
  const std::string path = file_of(unit);
  if (!io_.stat(path)) return {};
  const auto damaged = [&]() -> std::optional<UnitCodes> {
    log_warn("{} is damaged: its unit is coded anew", path);
    return {};
  };
  std::optional<Safetensors> file;
  try {
    file.emplace(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) throw;
    return damaged();
  }
  const auto run = file->metadata().find("run"), checksum = file->metadata().find("codes");
  if (run == file->metadata().end() || run->second != metadata_of(settings_, weights_crc32c))
    throw Error(ErrorKind::usage,
                "{}: codes that another run left there: of other weights, another type, another text or "
                "other settings; remove the directory, or name another --output",
                path);
  UnitCodes codes = codes_in(*file);
  if (checksum == file->metadata().end() || checksum->second != checksum_of(codes)) return damaged();
  return codes;
}

const UnitCodes& CodeStore::of(int unit) {
  if (unit != kept_unit_) kept_ = codes_in(Safetensors(file_of(unit))), kept_unit_ = unit;
  return kept_;
}

}  // namespace tern
