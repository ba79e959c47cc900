#include "model/save_coded.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/io.h"
#include "formats/hf/config.h"
#include "formats/safetensors/shards.h"
#include "formats/safetensors/write.h"
#include "model/allocate_weights.h"
#include "model/coded_tensors.h"
#include "model/fragment.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

std::span<const std::byte> bytes_of(std::span<const int8_t> tables) { return std::as_bytes(tables); }

// The rows and tables of one tensor of the file.
void add_coded(const ParameterInfo& info, const std::vector<Fragment>& fragments, WeightType type,
               const CodeMatrix& code, std::vector<TensorToWrite>& to, CodedSaved& saved) {
  const Fragment& first = fragments.front();
  const int64_t row_bytes = stored_bytes(type, 1, info.shape[1]), tables = table_bytes(type);
  add_tensor(to, first,
             {.name = first.name + "." + lower_name(type),
              .dtype = DType::u8,
              .shape = {first.file_rows, row_bytes},
              .bytes = {},
              .produce = [&code, info, fragments, type, row_bytes](const ByteSink& sink) {
                const std::span<const std::byte> rows = code(info, type).rows;
                TERN_CHECK(static_cast<int64_t>(rows.size()) == info.shape[0] * row_bytes,
                           "save_coded: '{}' has {} bytes", info.name, rows.size());
                for (const int64_t row : rows_of_file(fragments))
                  sink(rows.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes)));
              }});
  saved.matrix_bytes += first.file_rows * row_bytes + tables;
  if (tables == 0) return;
  const std::vector<TablePart> parts = table_parts(info);
  const auto part = std::ranges::find_if(parts, [&](const TablePart& p) { return first.row_begin < p.row_end; });
  add_tensor(
      to, first,
      {.name = first.name + ".levels",
       .dtype = DType::i8,
       .shape = {kCodeTables, row_of(type).levels},
       .bytes = {},
       .produce = [&code, info, type, tables, at = part - parts.begin()](const ByteSink& sink) {
         sink(bytes_of(code(info, type).tables).subspan(static_cast<size_t>(at * tables), static_cast<size_t>(tables)));
       }});
}

}  // namespace

std::vector<TablePart> table_parts(const ParameterInfo& info) {
  std::vector<TablePart> parts;
  for (const std::vector<Fragment>& fragments : fragments_by_tensor(info)) {
    if (fragments.size() > 1 || fragments.front().file_step != 1) return {{0, info.shape[0]}};
    parts.push_back({fragments.front().row_begin, fragments.front().row_end});
  }
  return parts;
}

bool has_codes(const ModelSpec& spec, const ParameterInfo& info) {
  const auto& unit = spec.units[static_cast<size_t>(info.unit)].spec;
  return info.shape.rank == 2 && !std::holds_alternative<EmbedSpec>(unit) && !std::holds_alternative<HeadSpec>(unit) &&
         info.name.find(".router.") == std::string::npos && info.name.find(".shared_gate.") == std::string::npos;
}

bool is_token_table(const ModelSpec& spec, const ParameterInfo& info) {
  const auto& unit = spec.units[static_cast<size_t>(info.unit)].spec;
  return info.name == "embed.tokens" || (info.shape.rank == 2 && std::holds_alternative<HeadSpec>(unit));
}

std::optional<WeightType> type_in_directory(const ModelSpec& spec, const ParameterInfo& info, const GgufTypes& types) {
  WeightType type = types.tables;
  if (!is_token_table(spec, info)) {
    if (!has_codes(spec, info)) return {};
    const auto single = types.single.find(info.name);
    type = single == types.single.end() ? types.matrices : single->second;
  }
  return dtype_of(type) || fills_blocks(type, info.shape[1]) ? std::optional(type) : std::nullopt;
}

int64_t coded_matrix_bytes(const ParameterInfo& info, WeightType type) {
  int64_t bytes = 0;
  for (const std::vector<Fragment>& fragments : fragments_by_tensor(info))
    bytes += stored_bytes(type, fragments.front().file_rows, info.shape[1]) + table_bytes(type);
  return bytes;
}

int64_t coded_model_bytes(const ModelSpec& spec, const GgufTypes& types, DType dtype) {
  int64_t bytes = 0;
  for (const ParameterInfo& info : parameters(spec)) {
    const std::optional<WeightType> type = type_in_directory(spec, info, types);
    if (type && !dtype_of(*type))
      bytes += coded_matrix_bytes(info, *type);
    else
      bytes += info.shape.count() * size_of(type ? *dtype_of(*type) : dtype);
  }
  ModelWeights fixed = empty_weights(spec);
  for_each_fixed(spec, fixed,
                 [&](const ParameterInfo& info, Tensor&) { bytes += info.shape.count() * size_of(DType::f32); });
  return bytes;
}

CodedSaved save_coded(const ModelSpec& spec, const HfConfig& config, const ReadParameter& read, const CodeMatrix& code,
                      const GgufTypes& types, DType dtype, const std::string& dir, Io& io, int64_t max_shard_bytes) {
  CodedSaved saved;
  std::vector<TensorToWrite> tensors;
  const std::vector<ParameterInfo> infos = parameters(spec);
  for (const ParameterInfo& info : infos) {
    const std::optional<WeightType> type = type_in_directory(spec, info, types);
    const std::optional<DType> dense = type ? dtype_of(*type) : dtype;
    saved.num_dense += !type && (is_token_table(spec, info) || has_codes(spec, info));
    for (const std::vector<Fragment>& fragments : fragments_by_tensor(info))
      if (!dense)
        add_coded(info, fragments, *type, code, tensors, saved);
      else
        add_tensor(tensors, fragments.front(),
                   dense_tensor(
                       info, fragments, [&read, &info] { return read(info); }, *dense));
  }
  ModelWeights fixed = empty_weights(spec);
  for_each_fixed(spec, fixed, [&](const ParameterInfo& info, Tensor&) {
    for (const std::vector<Fragment>& fragments : fragments_by_tensor(info))
      tensors.push_back(dense_tensor(
          info, fragments, [&read, info] { return read(info); }, DType::f32));
  });
  for (const TensorToWrite& t : tensors)
    saved.tensor_bytes += std::accumulate(t.shape.begin(), t.shape.end(), size_of(t.dtype), std::multiplies<>());
  make_dirs(io, dir);
  write_model_weights(io, dir, tensors, max_shard_bytes);
  HfConfig written = config;
  written.dtype = dtype;
  written.coded = true;
  write_file_atomically(io, join_path(dir, "config.json"), hf_config_json(written));
  return saved;
}

}  // namespace tern
