#include "model/merge_offsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/io.h"
#include "base/mapped_file.h"
#include "base/publish.h"
#include "formats/gguf/model.h"
#include "model/file_bands.h"
#include "model/fragment.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// Where a block keeps its offset, and in how many bytes: 4 of f32, 2 of f16.
struct OffsetPlace {
  int64_t begin = 0, bytes = 0;
};
OffsetPlace offset_place(WeightType type) {
  switch (type) {
    case WeightType::u4:
    case WeightType::u3:
    case WeightType::u2:
    case WeightType::nf4_1:
      return {4, 4};
    case WeightType::q4_1:
    case WeightType::q5_1:
      return {2, 2};
    default:
      return {};
  }
}

double read_offset(const std::byte* at, int64_t bytes) {
  if (bytes == 4) {
    float o;
    std::memcpy(&o, at, sizeof o);
    return o;
  }
  f16 o;
  std::memcpy(&o, at, sizeof o);
  return to_float(o);
}
// To odd: rounded again to a narrower type it is what `x` rounds to (Boldo & Melquiond 2008).
float rounded_to_odd(double x) {
  auto near = static_cast<float>(x);
  if (static_cast<double>(near) == x || !std::isfinite(near)) return near;
  if (std::abs(static_cast<double>(near)) > std::abs(x)) near = std::nextafter(near, 0.0f);
  uint32_t bits;
  std::memcpy(&bits, &near, sizeof bits);
  bits |= 1;
  std::memcpy(&near, &bits, sizeof near);
  return near;
}
// Rounded once; gives what stands there now.
double write_offset(double o, std::byte* at, int64_t bytes) {
  if (bytes == 4) {
    const auto rounded = static_cast<float>(o);
    std::memcpy(at, &rounded, sizeof rounded);
    return rounded;
  }
  const f16 rounded = to_f16(rounded_to_odd(o));
  std::memcpy(at, &rounded, sizeof rounded);
  return to_float(rounded);
}

// A row of the file in our order (kernels/cpu/coded_rows.h).
int64_t our_row(int64_t row, int64_t head_dim) {
  if (head_dim == 0) return row;
  const int64_t in_head = row % head_dim;
  return row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

// A band beside branches.
struct Place {
  const Linear* linear;
  const FileBand* band;
  int64_t first_row;  // of the matrix
};
using PlacesOfFile = std::map<int64_t, Place>;  // by their offset in it

// As the model's files call the matrix that holds this row.
std::string file_name_of(const ParameterInfo& info, int64_t row = 0) {
  for (const Fragment& f : info.fragments)
    if (row >= f.row_begin && row < f.row_end) return f.name;
  return info.name;
}

void require_pooled(const ParameterInfo& info, const Branch& b, int64_t in, WeightType type) {
  const int64_t group = row_of(type).block_elements;
  const std::span<const float> a = b.a.span<float>();
  for (int64_t at = 0; at < b.rank * in; at += group)
    for (int64_t i = 1; i < group; ++i)
      if (std::memcmp(&a[static_cast<size_t>(at)], &a[static_cast<size_t>(at + i)], sizeof(float)) != 0)
        throw Error(ErrorKind::usage,
                    "merge: the adapter of '{}' tells inputs of one group of {} apart, so that no offset can hold "
                    "it: merge it into numbers (without --offsets), or train one with --method qalora or qablora",
                    file_name_of(info, b.row_begin), group);
}

void require_offsets(const std::string& name, const FileMatrix* matrix) {
  if (!matrix)
    throw Error(ErrorKind::usage,
                "merge: rows of '{}' do not lie one behind the other in the files: merge into numbers, without "
                "--offsets",
                name);
  for (const FileBand& band : matrix->bands)
    if (!has_offsets(band.type))
      throw Error(
          ErrorKind::usage,
          "merge: '{}' is {}, whose groups have no offset of their own (zero is a code): adding to it would "
          "change codes; quantize the base to u4, u3, u2, nf4_1 or q4_1, or merge into numbers, without --offsets",
          name, name_of(band.type));
}

// What the branches add to each group of a row.
std::vector<double> additions(const Linear& linear, int64_t row, int64_t group) {
  std::vector<double> sums(static_cast<size_t>(linear.in / group));
  for (const Branch& b : linear.branches) {
    if (row < b.row_begin || row >= b.row_end) continue;
    const std::span<const float> a = b.a.span<float>(), factors = b.b.span<float>();
    for (int64_t r = 0; r < b.rank; ++r) {
      const double factor =
          b.scale * static_cast<double>(factors[static_cast<size_t>((row - b.row_begin) * b.rank + r)]);
      for (size_t g = 0; g < sums.size(); ++g)
        sums[g] += factor * static_cast<double>(a[static_cast<size_t>(r * linear.in) + g * static_cast<size_t>(group)]);
    }
  }
  return sums;
}

void merge_row(const Place& place, int64_t file_row, std::span<std::byte> row, OffsetMerge& merged) {
  const WeightTypeRow& type = row_of(place.band->type);
  const OffsetPlace offset = offset_place(place.band->type);
  const int64_t ours = place.first_row + our_row(file_row, place.band->head_dim);
  const std::vector<double> add = additions(*place.linear, ours, type.block_elements);
  for (size_t g = 0; g < add.size(); ++g) {
    std::byte* at = row.data() + static_cast<int64_t>(g) * type.block_bytes + offset.begin;
    const double exact = read_offset(at, offset.bytes) + add[g], kept = write_offset(exact, at, offset.bytes);
    if (!std::isfinite(kept))
      throw Error(ErrorKind::usage, "merge: an offset would be {}, more than {} holds", exact, type.name);
    merged.error.change += add[g] * add[g], merged.error.lost += (kept - exact) * (kept - exact);
    merged.largest = std::max(merged.largest, std::abs(kept - exact));
    ++merged.offsets;
  }
}

void copy_file(const std::string& from, const PlacesOfFile& places, const std::string& to, Io& io,
               OffsetMerge& merged) {
  constexpr size_t kPiece = size_t{1} << 20;
  const MappedFile file(from);
  OutputFile out(io, to);
  size_t at = 0;
  const auto copy_to = [&](size_t end) {
    for (; at < end; at = std::min(at + kPiece, end)) out.append(file.bytes().subspan(at, std::min(kPiece, end - at)));
  };
  std::vector<std::byte> row;
  for (const auto& [offset, place] : places) {
    copy_to(static_cast<size_t>(offset));
    const auto row_bytes = static_cast<size_t>(place.band->extent.bytes / place.band->rows);
    for (int64_t r = 0; r < place.band->rows; ++r, at += row_bytes) {
      const std::span<const std::byte> bytes = file.bytes().subspan(at, row_bytes);
      row.assign(bytes.begin(), bytes.end());
      merge_row(place, r, row, merged);
      out.append(row);
    }
  }
  copy_to(file.size());
  out.publish();
}

}  // namespace

bool has_offsets(WeightType type) { return offset_place(type).bytes > 0; }

OffsetMerge merge_into_offsets(const ModelSpec& spec, ModelWeights& adapters, const std::string& model_dir,
                               const std::string& out, Io& io) {
  const FileBands bands = file_bands(spec, model_dir, DType::f32, {.most = INT64_MAX / 2, .least = 0});
  if (is_gguf_path(model_dir) && bands.paths.size() > 1)
    throw Error(ErrorKind::usage, "merge_offsets: {}: a model in {} files; join them first (llama-gguf-split --merge)",
                model_dir, bands.paths.size());
  std::unordered_map<std::string, const FileMatrix*> matrices;
  for (const FileMatrix& m : bands.matrices) matrices.emplace(m.name, &m);
  std::vector<PlacesOfFile> places(bands.paths.size());
  OffsetMerge merged;
  for_each_linear(spec, adapters, [&](const ParameterInfo& info, Linear& linear) {
    if (linear.branches.empty()) return;
    const auto at = matrices.find(info.name);
    const FileMatrix* matrix = at == matrices.end() ? nullptr : at->second;
    require_offsets(file_name_of(info), matrix);
    ++merged.error.matrices;
    int64_t row = 0;
    for (const FileBand& band : matrix->bands) {
      for (const Branch& b : linear.branches) require_pooled(info, b, linear.in, band.type);
      places[static_cast<size_t>(band.extent.file)].emplace(band.extent.offset, Place{&linear, &band, row});
      row += band.rows;
    }
  });
  for (size_t i = 0; i < places.size(); ++i)
    copy_file(bands.paths[i], places[i], is_gguf_path(model_dir) ? out : join_path(out, file_name(bands.paths[i])), io,
              merged);
  return merged;
}

}  // namespace tern
