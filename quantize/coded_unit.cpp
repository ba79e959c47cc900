#include "quantize/coded_unit.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/coded_matmul.h"

namespace tern {

void put_numbers(const ModelSpec& spec, int unit, ModelWeights& weights, const UnitCodes& codes,
                 const TypeOfMatrix& type_of, const std::string& where) {
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    const auto at = codes.find(info.name);
    if (info.unit != unit || at == codes.end()) return;
    const CodedMatrix& coded = at->second;
    const WeightType type = type_of(info);
    const int64_t k = linear.in, row_bytes = stored_bytes(type, 1, k), tables = table_bytes(type);
    const std::vector<TablePart> parts = table_parts(info);
    if (static_cast<int64_t>(coded.rows.size()) != linear.out * row_bytes ||
        static_cast<int64_t>(coded.tables.size()) != static_cast<int64_t>(parts.size()) * tables)
      throw Error(ErrorKind::bad_file, "{}: codes of '{}' have another size; remove the directory", where, info.name);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto [begin, end] = parts[i];
      const CodedRows rows{type, reinterpret_cast<const uint8_t*>(coded.rows.data()) + begin * row_bytes, end - begin,
                           0, tables > 0 ? coded.tables.data() + static_cast<int64_t>(i) * tables : nullptr};
      std::vector<int32_t> ids(static_cast<size_t>(end - begin));
      std::iota(ids.begin(), ids.end(), 0);
      gather_coded_rows<float>(rows, k, ids,
                               dense_rows(linear).span<float>().subspan(static_cast<size_t>(begin * k),
                                                                        ids.size() * static_cast<size_t>(k)));
    }
  });
}

}  // namespace tern
