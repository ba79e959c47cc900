#include "adapt/adapter_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/io.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/adapter_files.h"
#include "model/number.h"

namespace tern {
namespace {

constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";

// f64 > f32 > two of 16 bits, which together are f32.
DType widest(DType a, DType b) {
  if (a == b) return a;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

// Calls f.operator()<T>() with T the type of the numbers. Errors  bad_file: another type than weights have.
template <class F>
void by_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::f16:
      return f.template operator()<f16>();
    default:
      throw Error(ErrorKind::bad_file, "an adapter's numbers are {}; expected F32, BF16, F16 or F64", name_of(dtype));
  }
}

std::vector<double> numbers_of(const TensorView& t, const std::string& path) {
  std::vector<double> numbers(static_cast<size_t>(t.num_elements()));
  by_type(t.dtype.value_or(DType::u8), [&]<class T>() {
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = number_as<double>(load_number<T>(t.bytes.data() + i * sizeof(T)));
  });
  if (!std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); }))
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' holds a number that is not finite", path, t.name);
  return numbers;
}

// The module that a tensor belongs to, and which of its two it is.
struct Part {
  std::string module;
  bool is_a;
};
Part part_of(const TensorView& t, const std::string& path) {
  const bool is_a = t.name.ends_with(kA);
  if (!t.name.starts_with(kPrefix) || (!is_a && !t.name.ends_with(kB)) || t.shape.size() != 2)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' of shape {} is no A or B of LoRA, which alone are combined", path,
                t.name, shape_text(t.shape));
  return {std::string(t.name.substr(kPrefix.size(), t.name.size() - kPrefix.size() - kA.size())), is_a};
}

TensorToWrite rounded(const std::string& name, int64_t rows, const std::vector<double>& numbers, DType dtype) {
  return {.name = name,
          .dtype = dtype,
          .shape = {rows, static_cast<int64_t>(numbers.size()) / rows},
          .bytes = {},
          .produce = [&numbers, name, dtype](const ByteSink& sink) {
            by_type(dtype, [&]<class T>() {
              std::vector<T> as(numbers.size());
              for (size_t i = 0; i < as.size(); ++i)
                if (as[i] = number_as<T>(numbers[i]); !std::isfinite(number_as<double>(as[i])))
                  throw Error(ErrorKind::usage, "{}: {} is beyond what {} holds", name, numbers[i], name_of(dtype));
              sink(std::as_bytes(std::span(as)));
            });
          }};
}

}  // namespace

AdapterFile read_adapter_file(const std::string& dir) {
  AdapterFile adapter{.dir = dir, .config = read_peft_config(peft_config_file(dir)), .matrices = {}};
  if (adapter.config.magnitude)
    throw Error(ErrorKind::bad_file,
                "{}: use_dora: its magnitudes multiply rows, so several do not add up; adapt merge takes it",
                peft_config_file(dir));
  if (!adapter.config.saved.empty())
    throw Error(ErrorKind::bad_file,
                "{}: modules_to_save: modules that several adapters replace do not add up; adapt merge takes it",
                peft_config_file(dir));
  const Safetensors file(peft_weights_file(dir));
  std::set<std::string> with_a, with_b;
  for (size_t i = 0; i < file.size(); ++i) {
    const TensorView t = file[i];
    const Part part = part_of(t, file.path());
    const auto given = peft_adapter_of(adapter.config, part.module);
    const int64_t rank = t.shape[part.is_a ? 0 : 1];
    if (!given || given->rank != rank)
      throw Error(ErrorKind::bad_file, "{}: tensor '{}' has rank {}, adapter_config.json gives this module {}",
                  file.path(), t.name, rank, given ? fmt::format("rank {}", given->rank) : "no adapter");
    AdapterMatrix& m = adapter.matrices[part.module];
    m.rank = rank, m.scale = given->scale;
    (part.is_a ? m.in : m.out) = t.shape[part.is_a ? 1 : 0];
    (part.is_a ? m.a : m.b) = numbers_of(t, file.path());
    (part.is_a ? with_a : with_b).insert(part.module);
    adapter.dtype = i == 0 ? *t.dtype : widest(adapter.dtype, *t.dtype);
  }
  for (const auto& [module, m] : adapter.matrices)
    if (!with_a.contains(module) || !with_b.contains(module))
      throw Error(ErrorKind::bad_file, "{}: tensor '{}{}{}' is missing; its partner is there", file.path(), kPrefix,
                  module, with_a.contains(module) ? kB : kA);
  if (adapter.matrices.empty()) throw Error(ErrorKind::bad_file, "{}: holds no adapter", file.path());
  return adapter;
}

PeftConfig combined_config(std::span<const AdapterFile> files, const AdapterMatrices& matrices) {
  PeftConfig c;
  c.base_model = files.front().config.base_model;
  const bool by_name = std::ranges::all_of(files, [](const AdapterFile& f) {
    return !f.config.targets.names.empty() && f.config.excluded.empty() && !f.config.layers;
  });
  std::set<std::string> names;
  if (by_name)
    for (const AdapterFile& f : files) names.insert(f.config.targets.names.begin(), f.config.targets.names.end());
  else
    for (const auto& [module, m] : matrices) names.insert(module);
  c.targets.names.assign(names.begin(), names.end());
  c.rank = 0;
  for (const auto& [module, m] : matrices) c.rank = std::max(c.rank, m.rank);
  c.alpha = static_cast<double>(c.rank);
  for (const auto& [module, m] : matrices) {
    if (m.rank == c.rank) continue;
    // A pattern is a regular expression of the path's end.
    std::string path;
    for (const char letter : module) path += letter == '.' ? "\\." : std::string(1, letter);
    c.rank_pattern.emplace_back("^" + path, m.rank);
    c.alpha_pattern.emplace_back("^" + path, static_cast<double>(m.rank));
  }
  return c;
}

DType combined_dtype(std::span<const AdapterFile> files) {
  DType dtype = files.front().dtype;
  for (const AdapterFile& f : files) dtype = widest(dtype, f.dtype);
  return dtype;
}

void write_adapter_file(const AdapterMatrices& matrices, const PeftConfig& config, DType dtype, const std::string& dir,
                        Io& io) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [module, m] : matrices) {
    const std::string path = std::string(kPrefix) + module;
    tensors.push_back(rounded(path + std::string(kA), m.rank, m.a, dtype));
    tensors.push_back(rounded(path + std::string(kB), m.out, m.b, dtype));
  }
  make_dirs(io, dir);
  write_safetensors(io, join_path(dir, "adapter_model.safetensors"), tensors);
  write_file_atomically(io, join_path(dir, "adapter_config.json"), peft_config_json(config));
}

}  // namespace tern
