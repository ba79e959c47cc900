#include "model/gated_adapter.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/io.h"
#include "formats/peft/gates.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/adapter_files.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

std::string json_of(const std::string& dir) { return join_path(dir, "gates.json"); }
std::string numbers_of(const std::string& dir) { return join_path(dir, "gates.safetensors"); }

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw Error(ErrorKind::bad_file, "{}: {}", path, what);
}

std::vector<double> read_numbers(const Safetensors& file, const std::string& name, std::vector<int64_t>& shape) {
  const auto view = file.find(name);
  if (!view || view->dtype != DType::f64) refuse(file.path(), fmt::format("no tensor '{}' of F64", name));
  shape.assign(view->shape.begin(), view->shape.end());
  std::vector<double> numbers(static_cast<size_t>(view->num_elements()));
  std::memcpy(numbers.data(), view->bytes.data(), view->bytes.size());
  for (const double x : numbers)
    if (!std::isfinite(x)) refuse(file.path(), fmt::format("tensor '{}' holds {}, expected finite numbers", name, x));
  return numbers;
}

InputGate read_gate(const Safetensors& file, size_t index) {
  const std::string end = fmt::format(".{}", index);
  std::vector<int64_t> first, second, key;
  InputGate gate;
  gate.first = read_numbers(file, "first" + end, first);
  gate.second = read_numbers(file, "second" + end, second);
  gate.key = read_numbers(file, "key" + end, key);
  if (first.size() != 2 || second != std::vector{first[1], first[0]} || key != std::vector{first[1]})
    refuse(file.path(),
           fmt::format("gate {}: expected first (hidden, width), second (width, hidden), key (width)", index));
  gate.hidden = first[0], gate.width = first[1];
  return gate;
}

void copy_file(const std::string& from, const std::string& to, Io& io) { write_file_atomically(io, to, io.read(from)); }

}  // namespace

bool is_gated_adapter(const std::string& dir) { return real_io().stat(json_of(dir)).has_value(); }

GatedAdapter read_gated_adapter(const std::string& dir) {
  const std::string path = json_of(dir);
  const GatesConfig config = read_gates_config(path);
  GatedAdapter gated{.prompt_tokens = config.prompt_tokens, .gates = {}, .branches = {}};
  const Safetensors file(numbers_of(dir));
  for (const std::string& name : config.branches) {
    gated.gates.push_back(read_gate(file, gated.branches.size()));
    gated.branches.push_back(join_path(dir, name));
    if (gated.gates.back().width != gated.gates.front().width) refuse(file.path(), "gates of unlike widths");
  }
  if (file.size() != 3 * gated.gates.size())
    refuse(file.path(), fmt::format("{} tensors, {} has {} branches", file.size(), path, gated.branches.size()));
  return gated;
}

void write_gated_adapter(const GatedAdapter& gated, const std::string& dir, Io& io) {
  make_dirs(io, dir);
  GatesConfig config{.prompt_tokens = gated.prompt_tokens, .branches = {}};
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < gated.gates.size(); ++i) {
    const InputGate& g = gated.gates[i];
    const auto add = [&](const char* part, const std::vector<double>& numbers, std::vector<int64_t> shape) {
      tensors.push_back({.name = fmt::format("{}.{}", part, i),
                         .dtype = DType::f64,
                         .shape = std::move(shape),
                         .bytes = std::as_bytes(std::span(numbers)),
                         .produce = {}});
    };
    add("first", g.first, {g.hidden, g.width}), add("second", g.second, {g.width, g.hidden}),
        add("key", g.key, {g.width});
    const std::string name(file_name(gated.branches[i])), to = join_path(dir, name);
    make_dirs(io, to);
    copy_file(peft_config_file(gated.branches[i]), join_path(to, "adapter_config.json"), io);
    copy_file(peft_weights_file(gated.branches[i]), join_path(to, "adapter_model.safetensors"), io);
    config.branches.push_back(name);
  }
  write_safetensors(io, numbers_of(dir), tensors);
  write_file_atomically(io, json_of(dir), gates_config_json(config));
}

std::vector<double> gates_of(const GatedAdapter& gated, const ModelSpec& spec, const ModelWeights& weights,
                             std::span<const int32_t> prompt) {
  const std::vector<double> p = mean_embedding(spec, weights, prompt);
  std::vector<double> gates;
  for (const InputGate& gate : gated.gates) gates.push_back(run_gate(gate, p).gate);
  return gates;
}

GatedBranches::GatedBranches(const ModelSpec& spec, ModelWeights& weights, size_t own) {
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    for (Branch& b : linear.branches) {
      items_.push_back({&b, b.scale, b.adapter == Branch::kEveryRow ? own : static_cast<size_t>(b.adapter)});
      b.adapter = Branch::kEveryRow;
    }
  });
}

void GatedBranches::set(std::span<const double> gates) const {
  for (const Item& item : items_) item.branch->scale = item.scale * gates[item.gate];
}

}  // namespace tern
