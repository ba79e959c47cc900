#include "quantize/code_store.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

constexpr std::string_view kTables = ".tables";

std::string metadata_of(const std::string& settings, uint32_t crc) {
  return fmt::format("{}, weights {:08x}", settings, crc);
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
  write_safetensors(io_, file_of(unit), tensors, {{"run", metadata_of(settings_, weights_crc32c)}});
}

std::optional<UnitCodes> CodeStore::read(int unit, uint32_t weights_crc32c) const {
  const std::string path = file_of(unit);
  if (!io_.stat(path)) return {};
  const Safetensors file(path);
  const auto run = file.metadata().find("run");
  if (run == file.metadata().end() || run->second != metadata_of(settings_, weights_crc32c))
    throw Error(ErrorKind::usage,
                "{}: codes that another run left there: of other weights, another type or another text; remove the "
                "directory, or name another --output",
                path);
  return codes_in(file);
}

const UnitCodes& CodeStore::of(int unit) {
  if (unit != kept_unit_) kept_ = codes_in(Safetensors(file_of(unit))), kept_unit_ = unit;
  return kept_;
}

}  // namespace tern
