// The tensors of a matrix that another program quantized, and whether they fit it and each other.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/hf/nf4_state.h"
#include "kernels/cpu/decode.h"
#include "model/fragment.h"
#include "model/hf_quantized.h"
#include "model/weights_file.h"

namespace tern {
namespace {

using Shape2 = std::vector<int64_t>;

class Finder {
 public:
  Finder(const ModelSpec& spec, const Weights& file, HfQuantizedMatrix& m) : spec_(spec), file_(file), m_(m) {}

  void gptq();
  void awq();
  void packed_integers();
  void plain_integers();
  void mxfp4();
  void mxfp4_stack(int64_t slabs);
  void nf4();

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: packed matrix '{}' ({}, {}): {}", file_.path(), m_.name, m_.out, m_.in,
                fmt::format(format, std::forward<Args>(args)...));
  }
  std::optional<TensorView> find(const std::string& part) {
    auto view = find_parameter(spec_, file_, m_.name + part);
    if (view) m_.tensors.emplace_back(view->name);
    return view;
  }
  TensorView get(const std::string& part) {
    auto view = find(part);
    if (!view) fail("tensor '{}' is missing", m_.name + part);
    return *view;
  }
  void require(const TensorView& view, std::initializer_list<DType> types, const Shape2& shape) const {
    const bool right = view.dtype && std::ranges::find(types, *view.dtype) != types.end();
    if (right && std::ranges::equal(view.shape, shape)) return;
    fail("tensor '{}' is {} {}, expected {} {}", view.name, view.dtype_name, shape_text(view.shape),
         safetensors_name(*types.begin()), shape_text(shape));
  }
  int64_t size(const TensorView& view, size_t dim) const {
    if (view.shape.size() != 2)
      fail("tensor '{}' has shape {}, expected two numbers", view.name, shape_text(view.shape));
    return view.shape[dim];
  }
  // The bits of a code, of which `count` take so many words.
  int64_t bits_of(const TensorView& view, int64_t words, int64_t count) const {
    for (const int64_t bits : {2, 3, 4, 8})
      if ((count * bits + 31) / 32 == words && (bits != 3 || count % 32 == 0)) return bits;
    fail("tensor '{}' has {} words for {} codes, expected 2, 3, 4 or 8 bits each", view.name, words, count);
  }
  void groups_of(int64_t groups) {
    if (groups < 1 || m_.in % groups != 0) fail("{} groups do not part {} inputs", groups, m_.in);
    m_.groups = groups;
  }
  void order_of(const std::string& part);

  const ModelSpec& spec_;
  const Weights& file_;
  HfQuantizedMatrix& m_;
};

constexpr std::initializer_list<DType> kScales{DType::f16, DType::bf16, DType::f32};

// Inputs that are in their groups' order need none.
void Finder::order_of(const std::string& part) {
  const auto order = find(part);
  if (!order) return;
  require(*order, {DType::i32}, {m_.in});
  const int64_t width = m_.in / m_.groups;
  bool plain = true;
  for (int64_t k = 0; k < m_.in; ++k) {
    int32_t group;
    std::memcpy(&group, order->bytes.data() + 4 * k, 4);
    if (group < 0 || group >= m_.groups) fail("tensor '{}' names group {} of {}", order->name, group, m_.groups);
    plain = plain && group == k / width;
  }
  if (!plain) m_.order = order;
}

void Finder::gptq() {
  m_.codes = get(".qweight");
  m_.bits = bits_of(m_.codes, size(m_.codes, 0), m_.in);
  require(m_.codes, {DType::i32}, {m_.in * m_.bits / 32, m_.out});
  m_.scales = get(".scales");
  groups_of(size(m_.scales, 0));
  require(m_.scales, kScales, {m_.groups, m_.out});
  if (m_.out * m_.bits % 32 != 0) fail("zeros of {} bits do not fill words", m_.bits);
  m_.zeros = get(".qzeros");
  require(*m_.zeros, {DType::i32}, {m_.groups, m_.out * m_.bits / 32});
  order_of(".g_idx");
}

void Finder::awq() {
  m_.bits = 4;
  m_.codes = get(".qweight");
  if (m_.out % 8 != 0) fail("its outputs do not fill words of eight");
  require(m_.codes, {DType::i32}, {m_.in, m_.out / 8});
  m_.scales = get(".scales");
  groups_of(size(m_.scales, 0));
  require(m_.scales, kScales, {m_.groups, m_.out});
  m_.zeros = get(".qzeros");
  require(*m_.zeros, {DType::i32}, {m_.groups, m_.out / 8});
}

void Finder::packed_integers() {
  m_.codes = get(".weight_packed");
  m_.bits = bits_of(m_.codes, size(m_.codes, 1), m_.in);
  require(m_.codes, {DType::i32}, {m_.out, (m_.in * m_.bits + 31) / 32});
  m_.scales = get(".weight_scale");
  groups_of(size(m_.scales, 1));
  require(m_.scales, kScales, {m_.out, m_.groups});
  m_.zeros = find(".weight_zero_point");
  if (m_.zeros) require(*m_.zeros, {DType::i32}, {(m_.out * m_.bits + 31) / 32, m_.groups});
  order_of(".weight_g_idx");
  if (const auto shape = find(".weight_shape")) {
    if (shape->dtype != DType::i64 && shape->dtype != DType::i32)
      fail("tensor '{}' holds {}, expected I64", shape->name, shape->dtype_name);
    const bool wide = shape->dtype == DType::i64;
    if (shape->bytes.size() != (wide ? 16 : 8)) fail("tensor '{}' is no pair of numbers", shape->name);
    int64_t sizes[2];
    for (int i = 0; i < 2; ++i) {
      int32_t narrow;
      std::memcpy(&sizes[i], shape->bytes.data() + (wide ? 8 * i : 0), 8);
      std::memcpy(&narrow, shape->bytes.data() + 4 * i, 4);
      if (!wide) sizes[i] = narrow;
    }
    if (sizes[0] != m_.out || sizes[1] != m_.in)
      fail("tensor '{}' says ({}, {}), config.json implies otherwise", shape->name, sizes[0], sizes[1]);
  }
}

void Finder::plain_integers() {
  m_.bits = 8;
  m_.codes = get(".weight");
  require(m_.codes, {DType::i8}, {m_.out, m_.in});
  m_.scales = get(".weight_scale");
  if (m_.scales.shape.size() == 1 && m_.scales.shape[0] == m_.out) {
    groups_of(1);
    require(m_.scales, kScales, {m_.out});
  } else {
    groups_of(size(m_.scales, 1));
    require(m_.scales, kScales, {m_.out, m_.groups});
  }
  m_.zeros = find(".weight_zero_point");
  if (m_.zeros && static_cast<int64_t>(m_.zeros->bytes.size()) == m_.out * m_.groups)
    require(*m_.zeros, {DType::i8}, Shape2(m_.zeros->shape.begin(), m_.zeros->shape.end()));
  else if (m_.zeros)
    require(*m_.zeros, {DType::i8}, {m_.out, m_.groups});
}

void Finder::mxfp4() {
  m_.bits = 4;
  m_.codes = get(".weight_packed");
  if (m_.in % 32 != 0) fail("rows of {} are no whole blocks of 32", m_.in);
  require(m_.codes, {DType::u8}, {m_.out, m_.in / 2});
  m_.scales = get(".weight_scale");
  groups_of(m_.in / 32);
  require(m_.scales, {DType::u8}, {m_.out, m_.groups});
  if (const auto zeros = find(".weight_zero_point")) fail("tensor '{}' beside numbers of FP4", zeros->name);
}

// The matrices of all experts one below the other.
void Finder::mxfp4_stack(int64_t slabs) {
  m_.bits = 4;
  m_.codes = get("_blocks");
  if (m_.in % 32 != 0) fail("rows of {} are no whole blocks of 32", m_.in);
  require(m_.codes, {DType::u8}, {slabs, m_.out / slabs, m_.in / 32, 16});
  m_.scales = get("_scales");
  groups_of(m_.in / 32);
  require(m_.scales, {DType::u8}, {slabs, m_.out / slabs, m_.groups});
}

void Finder::nf4() {
  m_.codes = get(".weight");
  const int64_t count = m_.out * m_.in;
  if (m_.in % 64 != 0) fail("rows of {} are no whole blocks of 64", m_.in);
  require(m_.codes, {DType::u8}, {count / 2, 1});
  const TensorView state = get(".weight.quant_state.bitsandbytes__nf4");
  if (state.dtype != DType::u8) fail("tensor '{}' holds {}, expected U8", state.name, state.dtype_name);
  const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
  const Nf4State said = parse_nf4_state(text, fmt::format("{}: tensor '{}'", file_.path(), state.name));
  m_.bits = 4, m_.groups = 1;
  m_.block = said.block;
  if (m_.block % 64 != 0) fail("blocks of {}, expected a multiple of 64", m_.block);
  if (!said.shape.empty() && said.shape != Shape2{m_.out, m_.in})
    fail("tensor '{}' says shape {}, config.json implies otherwise", state.name, shape_text(said.shape));
  const TensorView map = get(".weight.quant_map");
  require(map, {DType::f32}, {16});
  std::vector<std::byte> block(36, std::byte{0});
  for (int i = 0; i < 8; ++i) block[4 + static_cast<size_t>(i)] = static_cast<std::byte>((2 * i) << 4 | (2 * i + 1));
  const float one = 1;
  std::memcpy(block.data(), &one, 4);
  std::vector<float> levels(64);
  decode_blocks(WeightType::nf4, block, levels);
  if (std::memcmp(levels.data(), map.bytes.data(), 64) != 0) fail("tensor '{}' is not the table of NF4", map.name);
  m_.scales = get(".weight.absmax");
  const int64_t blocks = (count + m_.block - 1) / m_.block;
  if (!find_parameter(spec_, file_, m_.name + ".weight.nested_absmax")) {
    require(m_.scales, {DType::f32}, {blocks});
    return;
  }
  require(m_.scales, {DType::u8}, {blocks});
  m_.nested = get(".weight.nested_absmax"), m_.nested_map = get(".weight.nested_quant_map");
  m_.nested_block = said.nested_block;
  if (m_.nested_block < 1 || !said.offset) fail("tensor '{}' lacks nested_blocksize or nested_offset", state.name);
  require(*m_.nested, {DType::f32}, {(blocks + m_.nested_block - 1) / m_.nested_block});
  require(*m_.nested_map, {DType::f32}, {256});
  m_.nested_offset = static_cast<float>(*said.offset);
}

}  // namespace

bool is_idle_bias(const Weights& file, std::string_view name) {
  constexpr std::string_view kEnd = ".bias";
  if (!name.ends_with(kEnd) || !file.find(std::string(name.substr(0, name.size() - kEnd.size())) + ".qweight"))
    return false;
  const auto bias = file.find(name);
  return bias && std::ranges::all_of(bias->bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::optional<HfQuantizedMatrix> find_hf_quantized(const ModelSpec& spec, const Weights& file,
                                                   std::optional<HfPacking> packing, const Fragment& f, int64_t in) {
  constexpr std::string_view kEnd = ".weight";
  const bool stacked = packing == HfPacking::mxfp4;
  if (!packing || (stacked ? f.slabs == 0 : !f.name.ends_with(kEnd))) return {};
  HfQuantizedMatrix m;
  m.packing = *packing, m.name = stacked ? f.name : f.name.substr(0, f.name.size() - kEnd.size());
  m.out = f.all_rows(), m.in = in;
  const auto has = [&](const char* part) { return find_parameter(spec, file, m.name + part).has_value(); };
  Finder finder(spec, file, m);
  switch (*packing) {
    case HfPacking::gptq:
    case HfPacking::gptq_v2:
      if (!has(".qweight")) return {};
      finder.gptq();
      break;
    case HfPacking::awq:
      if (!has(".qweight")) return {};
      finder.awq();
      break;
    case HfPacking::compressed:
      if (const auto codes = find_parameter(spec, file, m.name + ".weight_packed"))
        codes->dtype == DType::u8 ? finder.mxfp4() : finder.packed_integers();
      else if (has(".weight_scale"))
        finder.plain_integers();
      else
        return {};
      break;
    case HfPacking::mxfp4:
      if (!has("_blocks")) return {};
      finder.mxfp4_stack(f.slabs);
      break;
    case HfPacking::bitsandbytes:
      if (!has(".weight.absmax")) return {};
      finder.nf4();
      break;
  }
  return m;
}

}  // namespace tern
