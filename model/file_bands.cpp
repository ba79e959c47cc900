#include "model/file_bands.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "formats/gguf/model.h"
#include "formats/safetensors/index.h"
#include "kernels/cpu/matmul.h"
#include "model/allocate_weights.h"
#include "model/coded_tensors.h"
#include "model/fragment.h"
#include "model/gguf_weights.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

// Rows of a band are whole panels of every instruction set, so that packing adds nothing.
constexpr int64_t kRowsTogether = 64;

// The rows of one fragment where they lie, whole; nothing where they cannot be read as they lie.
std::optional<FileBand> whole_rows(const ModelSpec& spec, const Weights& file, const ParameterInfo& info,
                                   const Fragment& f) {
  if (const auto coded = find_coded(spec, file, info, f)) {
    if (f.file_step != 1) return {};
    const auto at = file.where(coded->rows.name);
    const int64_t rows = f.row_end - f.row_begin, in = info.shape[1];
    return FileBand{
        rows,
        {at->file, at->offset + stored_bytes(coded->type, f.first_row(), in), stored_bytes(coded->type, rows, in)},
        coded->type,
        0,
        coded->tables};
  }
  const auto view = find_parameter(spec, file, f.name);
  const auto type = view && view->dtype ? weight_type_of(*view->dtype) : std::nullopt;
  if (!type || f.transposed || f.file_step != 1 || !std::ranges::equal(view->shape, fragment_shape(info, f))) return {};
  const auto at = file.where(view->name);
  const int64_t rows = f.row_end - f.row_begin, in = info.shape[1];
  return FileBand{
      rows, {at->file, at->offset + stored_bytes(*type, f.first_row(), in), stored_bytes(*type, rows, in)}, *type, 0};
}

std::vector<FileBand> cut(const FileBand& whole, int64_t in, int64_t band_bytes) {
  const int64_t row_bytes = stored_bytes(whole.type, 1, in);
  const int64_t together = whole.head_dim > 0 ? std::lcm(kRowsTogether, whole.head_dim) : kRowsTogether;
  const int64_t most = std::max(together, band_bytes / row_bytes / together * together);
  const int64_t count = (whole.rows + most - 1) / most;
  std::vector<FileBand> bands;
  for (int64_t i = 0, row = 0; row < whole.rows; ++i) {  // as equal as whole panels allow
    const int64_t end =
        i + 1 == count ? whole.rows : (whole.rows * (i + 1) / count + together - 1) / together * together;
    FileBand band = whole;
    band.rows = std::min(end, whole.rows) - row;
    band.extent.offset += row * row_bytes;
    band.extent.bytes = band.rows * row_bytes;
    row += band.rows;
    bands.push_back(band);
  }
  return bands;
}

// What a pass does not read once and whole.
bool is_expert(const std::string& name) { return name.find(".experts.") != std::string::npos; }

int64_t bytes_of(const FileMatrix& m) {
  int64_t bytes = 0;
  for (const FileBand& band : m.bands) bytes += band.extent.bytes;
  return bytes;
}

// Latent attention reads the rows of keys and values before those of queries (model/latent.cpp).
int order_within_unit(const std::string& name) { return name.find(".kv_down.") != std::string::npos ? 0 : 1; }

// The units of which every expert may be read when it is chosen. Matrices come expert by expert, up before down.
std::vector<FileExperts> by_unit(const ModelSpec& spec, std::vector<FileMatrix> matrices,
                                 const std::vector<int>& units) {
  std::vector<FileExperts> all;
  for (size_t i = 0; i < matrices.size();) {
    const int unit = units[i];
    const auto& moe = std::get<MoeSpec>(spec.units[static_cast<size_t>(unit)].spec);
    FileExperts experts{.unit = unit, .top_k = moe.top_k, .up = {}, .down = {}};
    size_t count = 0;
    for (; i < matrices.size() && units[i] == unit; ++i, ++count)
      (matrices[i].name.ends_with(".up.weight") ? experts.up : experts.down).push_back(std::move(matrices[i]));
    if (count == 2 * static_cast<size_t>(moe.experts)) all.push_back(std::move(experts));
  }
  return all;
}

// The rows of a matrix, part by part; empty where a part does not lie in the file as it is needed.
using WholeRows = std::function<std::vector<FileBand>(const ParameterInfo&)>;

FileBands bands_of(const ModelSpec& spec, std::vector<std::string> paths, const BandSizes& sizes, CodedBytes coded,
                   const WholeRows& rows_of) {
  FileBands all{
      .paths = std::move(paths), .matrices = {}, .experts = {}, .table = {}, .unused = {}, .coded = std::move(coded)};
  std::vector<std::tuple<int, int, FileMatrix>> matrices;
  std::vector<FileMatrix> experts;
  std::vector<int> units_of_experts;
  ModelWeights shapes = empty_weights(spec);
  for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    FileMatrix matrix{.name = info.name, .out = linear.out, .in = linear.in, .bands = {}};
    matrix.bands = rows_of(info);
    if (matrix.bands.empty() || bytes_of(matrix) < sizes.least) return;
    const bool in_integers =
        all.coded.contains(info.name) && std::ranges::all_of(matrix.bands, [&](const FileBand& band) {
          return multiplies_in_integers(band.type, linear.in);
        });
    for (FileBand& band : matrix.bands) band.in_integers = in_integers;
    if (is_expert(info.name)) {
      experts.push_back(std::move(matrix));
      units_of_experts.push_back(info.unit);
      return;
    }
    std::vector<FileBand> cut_bands;
    for (const FileBand& rows : matrix.bands)
      for (const FileBand& band : cut(rows, linear.in, sizes.most)) cut_bands.push_back(band);
    matrix.bands = std::move(cut_bands);
    matrix.head = &linear == &head_of(shapes).projection;
    const int unit = matrix.head ? static_cast<int>(spec.units.size()) - 1 : info.unit;
    matrices.emplace_back(unit, order_within_unit(info.name), std::move(matrix));
  });
  all.experts = by_unit(spec, std::move(experts), units_of_experts);
  std::ranges::stable_sort(matrices, [](const auto& a, const auto& b) {
    return std::pair{std::get<0>(a), std::get<1>(a)} < std::pair{std::get<0>(b), std::get<1>(b)};
  });
  for (auto& [unit, order, matrix] : matrices) all.matrices.push_back(std::move(matrix));
  const ParameterInfo table = parameters(spec).front();
  if (const std::vector<FileBand> rows = rows_of(table);
      rows.size() == 1 && rows.front().head_dim == 0 && rows.front().extent.bytes >= sizes.least)
    all.table = rows.front();
  return all;
}

}  // namespace

FileBands file_bands(const ModelSpec& spec, const std::string& model_dir, DType dtype, const BandSizes& sizes,
                     bool in_integers) {
  if (dtype == DType::f64) return {};
  CodedBytes coded;  // as they would stay in memory
  if (in_integers) coded = coded_bytes(spec, model_dir, dtype, WeightsIn::coded_int8);
  if (is_gguf_path(model_dir)) {
    const Gguf file(model_dir);
    return bands_of(spec, file.paths(), sizes, std::move(coded),
                    [&](const ParameterInfo& info) { return gguf_rows(spec, file, info); });
  }
  const Weights file(weights_file(model_dir));
  std::vector<std::string> paths;
  for (const Safetensors& each : file.files()) paths.push_back(each.path());
  return bands_of(spec, std::move(paths), sizes, std::move(coded), [&](const ParameterInfo& info) {
    std::vector<FileBand> parts;
    for (const Fragment& f : info.fragments) {
      const auto rows = whole_rows(spec, file, info, f);
      if (!rows) return std::vector<FileBand>{};
      parts.push_back(*rows);
    }
    return parts;
  });
}

void leave_head_out(FileBands& bands) {
  if (bands.matrices.empty() || !bands.matrices.back().head) return;
  bands.unused = bands.matrices.back().name;
  bands.matrices.pop_back();
}

int64_t FileExperts::expert_bytes() const { return bytes_of(up.front()) + bytes_of(down.front()); }

std::vector<CacheItem> expert_items(const FileBands& bands) {
  std::vector<CacheItem> items;
  for (const FileExperts& unit : bands.experts)
    for (size_t e = 0; e < unit.up.size(); ++e)
      for (const FileMatrix* m : {&unit.up[e], &unit.down[e]}) {
        items.push_back({{}, m == &unit.up[e] ? 0 : 1});
        for (const FileBand& band : m->bands) items.back().extents.push_back(band.extent);
      }
  return items;
}

int64_t num_experts(const FileBands& bands) {
  int64_t count = 0;
  for (const FileExperts& unit : bands.experts) count += static_cast<int64_t>(unit.up.size());
  return count;
}

bool stays_packed(const FileBand& band, int64_t in, DType dtype) {
  return !band.in_integers && packed_bytes(dtype, band.rows, in) <= band.extent.bytes;
}

int64_t kept_bytes(const FileBand& band, int64_t in, DType dtype) {
  return stays_packed(band, in, dtype) ? packed_bytes(dtype, band.rows, in) : band.extent.bytes;
}

std::vector<PassExtent> pass_extents(const FileBands& bands, DType dtype) {
  std::vector<PassExtent> extents;
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands) extents.push_back({band.extent.bytes, kept_bytes(band, m.in, dtype)});
  return extents;
}

CodedBytes bytes_in_memory(const FileBands& bands, const std::vector<bool>& stays, DType dtype) {
  CodedBytes bytes = bands.coded;
  for (const FileMatrix& m : bands.matrices) bytes[m.name] = 0;
  size_t at = 0;
  if (bands.table.rows > 0) bytes["embed.tokens"] = 0;
  if (!bands.unused.empty()) bytes[bands.unused] = 0;
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands) bytes[m.name] += stays[at++] ? kept_bytes(band, m.in, dtype) : 0;
  for (const FileExperts& unit : bands.experts)
    for (size_t e = 0; e < unit.up.size(); ++e) bytes[unit.up[e].name] = bytes[unit.down[e].name] = 0;
  return bytes;
}

}  // namespace tern
