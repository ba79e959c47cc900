#include "model/coded_tensors.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/error.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/parallel.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

void require_shape(const Weights& file, const TensorView& view, DType dtype, std::initializer_list<int64_t> want) {
  if (view.dtype == dtype && std::ranges::equal(view.shape, want)) return;
  throw Error(ErrorKind::bad_file, "{}: tensor '{}' is {} {}, config.json and its name imply {} {}", file.path(),
              view.name, view.dtype_name, shape_text(view.shape), safetensors_name(dtype),
              shape_text(std::vector(want)));
}

CodeTables read_tables(const ModelSpec& spec, const Weights& file, const std::string& name, WeightType type,
                       const Fragment& f) {
  const auto view = find_parameter(spec, file, name);
  if (!view && find_parameter(spec, file, name.substr(0, name.rfind('.')) + ".tables"))
    throw Error(ErrorKind::bad_file,
                "{}: '{}' is missing, '.tables' in its place: rows of {} of an earlier form, whose scales were f16; "
                "quantize the model again",
                file.path(), name, name_of(type));
  if (!view)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing: rows of {} are coded by it", file.path(), name,
                name_of(type));
  require_shape(file, *view, DType::i8, {std::max<int64_t>(1, f.slabs) * kCodeTables, row_of(type).levels});
  const auto* begin = reinterpret_cast<const int8_t*>(view->bytes.data()) + f.slab * table_bytes(type);
  return std::make_shared<const std::vector<int8_t>>(begin, begin + table_bytes(type));
}

}  // namespace

std::string lower_name(WeightType type) {
  std::string name(name_of(type));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::optional<CodedTensor> find_coded(const ModelSpec& spec, const Weights& file, const ParameterInfo& info,
                                      const Fragment& f) {
  if (info.shape.rank != 2) return {};
  for (const WeightTypeRow& row : kWeightTypes) {
    const auto view = find_parameter(spec, file, f.name + "." + lower_name(row.type));
    if (!view) continue;
    const int64_t in = info.shape[1];
    if (!fills_blocks(row.type, in))
      throw Error(ErrorKind::bad_file, "{}: tensor '{}': rows of {} numbers are no whole blocks of {}", file.path(),
                  view->name, in, row.name);
    require_shape(file, *view, DType::u8, {f.all_rows(), stored_bytes(row.type, 1, in)});
    CodedTensor coded{row.type, *view, {}, {}};
    if (row.levels > 0) {
      coded.tables_name = std::string(view->name.substr(0, view->name.rfind('.'))) + ".levels";
      coded.tables = read_tables(spec, file, coded.tables_name, row.type, f);
    }
    return coded;
  }
  return {};
}

std::span<const std::byte> coded_bytes_of(const CodedTensor& coded, const ParameterInfo& info, const Fragment& f) {
  TERN_CHECK(f.file_step == 1, "'{}': rows of a fragment that lie apart", f.name);
  const int64_t row_bytes = stored_bytes(coded.type, 1, info.shape[1]);
  return coded.rows.bytes.subspan(static_cast<size_t>(f.first_row() * row_bytes),
                                  static_cast<size_t>((f.row_end - f.row_begin) * row_bytes));
}

template <class T>
void decode_fragment(const CodedTensor& coded, const ParameterInfo& info, const Fragment& f, T* to) {
  const int64_t rows = f.row_end - f.row_begin, in = info.shape[1];
  const CodedRows all{coded.type, reinterpret_cast<const uint8_t*>(coded.rows.bytes.data()), f.all_rows(), 0,
                      coded.tables ? coded.tables->data() : nullptr};
  constexpr bool kDirect = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
  std::vector<int32_t> ids;
  std::vector<float> numbers;
  constexpr int64_t kAtOnce = 1024;
  for (int64_t begin = 0; begin < rows; begin += kAtOnce) {
    const int64_t count = std::min(kAtOnce, rows - begin);
    ids.clear();
    for (int64_t r = begin; r < begin + count; ++r)
      ids.push_back(static_cast<int32_t>(f.first_row() + r * f.file_step));
    const std::span<T> out(to + begin * in, static_cast<size_t>(count * in));
    if constexpr (kDirect) {
      gather_coded_rows<T>(all, in, ids, out);
    } else {
      numbers.resize(out.size());
      gather_coded_rows<float>(all, in, ids, numbers);
      std::ranges::copy(numbers, out.begin());
    }
  }
}
template void decode_fragment(const CodedTensor&, const ParameterInfo&, const Fragment&, float*);
template void decode_fragment(const CodedTensor&, const ParameterInfo&, const Fragment&, bf16*);
template void decode_fragment(const CodedTensor&, const ParameterInfo&, const Fragment&, double*);

}  // namespace tern
