// A model's configuration out of GGUF's keys: the names are llama.cpp's, as its converter writes and its loader reads
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "formats/gguf/families.h"
#include "formats/gguf/model.h"
#include "formats/hf/config_impl.h"

namespace tern {
namespace {

class ConfigReader {
 public:
  explicit ConfigReader(const Gguf& file) : file_(file) {
    refuse_parts();
    architecture_ = std::string(file.get("general.architecture").as_string());
    family_ = gguf_family_of_architecture(architecture_);
    if (!family_)
      fail("general.architecture", "'{}', which tern does not read from GGUF; take the model's Hugging Face directory",
           architecture_);
  }

  HfConfig read() {
    if (const auto experts = integer("expert_count"); experts.value_or(0) > 0)
      fail(key("expert_count"),
           "{}: mixtures of experts are not read from GGUF; take the model's Hugging Face directory", *experts);
    auto window = integer("attention.sliding_window");
    if (window == 0) window = {};  // as Phi-4's files say "none"
    family_ = gguf_family_of_architecture(architecture_, window.has_value());
    const std::string model_type(family_->model_type);
    const HfFamily& family = *find_hf_family(model_type);
    json_["model_type"] = model_type;
    const auto put = [&](std::string_view field, Json value) {
      json_[std::string(hf_key(model_type, field))] = std::move(value);
    };
    const int64_t width = needed("embedding_length"), heads = needed("attention.head_count");
    const int64_t layers = needed("block_count");
    if (static_cast<uint64_t>(layers) > file_.tensors().size())
      fail(key("block_count"), "{}, but the file holds {} tensors", layers, file_.tensors().size());
    if (tensor("token_embd.weight").sizes[0] != width)
      fail(key("embedding_length"), "{}, tensor 'token_embd.weight' has rows of {}", width,
           tensor("token_embd.weight").sizes[0]);
    json_["vocab_size"] = tensor("token_embd.weight").sizes[1];
    put("hidden_size", width);
    put("num_hidden_layers", layers);
    put("num_attention_heads", heads);
    put("max_position_embeddings", needed("context_length"));
    put("intermediate_size", needed("feed_forward_length"));
    put("norm_eps", needed_number(gguf_epsilon_key(family)));
    json_["tie_word_embeddings"] = is_tied();
    put("hidden_act", family_->activation);
    if (family.blocks.positions == HfPositions::rotary) {
      read_llama_like(family, width, heads);
      if (window) json_["sliding_window"] = *window;
    }
    read_ids();
    json_["dtype"] = dtype_name();
    return parse_hf_config(dump_json(json_), file_.path());
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const std::string& at, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: key '{}': {}", file_.path(), at,
                fmt::format(format, std::forward<Args>(args)...));
  }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

  // A number that the file may give per layer; then all must be one.
  std::optional<int64_t> integer(std::string_view name) const {
    const auto value = file_.find(key(name));
    if (!value) return {};
    if (value->type() != GgufValueType::array) return value->as_i64();
    if (value->size() > static_cast<uint64_t>(kMostLayers))
      fail(key(name), "a list of {}, expected one of each layer, at most {}", value->size(), kMostLayers);
    const std::vector<int64_t> all = value->as_i64s();
    if (all.empty() || !std::all_of(all.begin(), all.end(), [&](int64_t n) { return n == all[0]; }))
      fail(key(name), "differs from layer to layer, which tern does not have");
    return all[0];
  }
  int64_t needed(std::string_view name) const {
    const auto value = integer(name);
    if (!value) (void)file_.get(key(name));  // throws, naming the nearest key
    if (*value < 1 || *value > INT32_MAX) fail(key(name), "{}, expected 1 to 2147483647", *value);
    return *value;
  }
  std::optional<double> number(std::string_view name) const {
    const auto value = file_.find(key(name));
    if (!value) return {};
    const double number = value->as_number();
    if (!std::isfinite(number)) fail(key(name), "{}, expected a number", number);
    // The shortest decimal that gives the f32 again: what somebody once typed.
    return value->type() == GgufValueType::f32 ? std::stod(fmt::format("{}", static_cast<float>(number))) : number;
  }
  double needed_number(std::string_view name) const {
    if (const auto value = number(name)) return *value;
    return file_.get(key(name)).as_number();  // throws, naming the nearest key
  }
  const GgufTensor& tensor(std::string_view name) const {
    if (const GgufTensor* t = file_.find_tensor(name)) return *t;
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; is this a whole model?", file_.path(), name);
  }

  void refuse_parts() const {
    const auto parts = file_.find("split.count");
    if (parts && parts->as_u64() > 1)
      fail("split.count", "this is one of {} files; join them first (llama-gguf-split --merge)", parts->as_u64());
  }

  // A head of its own that holds the table's numbers is the table.
  bool is_tied() const {
    const GgufTensor* head = file_.find_tensor("output.weight");
    const GgufTensor& table = tensor("token_embd.weight");
    return !head || (head->type == table.type && std::ranges::equal(head->sizes, table.sizes) &&
                     std::memcmp(head->bytes.data(), table.bytes.data(), table.bytes.size()) == 0);
  }

  void read_llama_like(const HfFamily& family, int64_t width, int64_t heads) {
    json_["num_key_value_heads"] = integer("attention.head_count_kv").value_or(heads);
    const int64_t head_dim = integer("attention.key_length").value_or(width / heads);
    if (const auto values = integer("attention.value_length"); values && *values != head_dim)
      fail(key("attention.value_length"), "{}, but keys have {}, which tern does not have", *values, head_dim);
    const int64_t turned = integer("rope.dimension_count").value_or(head_dim);
    if (turned != head_dim && (!family.defaults.partial_rotary || turned < 2 || turned > head_dim))
      fail(key("rope.dimension_count"), "{} of a head's {} elements, which {} models do not have", turned, head_dim,
           family.name);
    if (head_dim < 2 || head_dim > INT32_MAX) fail(key("attention.key_length"), "{}, expected 2 or more", head_dim);
    if (family.has_head_dim)
      json_["head_dim"] = head_dim;
    else if (head_dim * heads != width)
      fail(key("attention.key_length"), "{}, but {} models have {} / {}", head_dim, family.name, width, heads);
    if (has_option(family, &HfConfig::attention_bias))
      json_["attention_bias"] = file_.find_tensor("blk.0.attn_q.bias") != nullptr;
    if (has_option(family, &HfConfig::mlp_bias)) json_["mlp_bias"] = file_.find_tensor("blk.0.ffn_up.bias") != nullptr;
    if (family_->multipliers) read_multipliers(head_dim);
    read_rope(head_dim, turned);
  }

  // Zero is llama.cpp's word for "none".
  void read_multipliers(int64_t head_dim) {
    const auto factor = [&](std::string_view name, double none) {
      const double x = number(name).value_or(0);
      return x == 0 ? none : x;
    };
    json_["attention_multiplier"] = factor("attention.scale", 1 / std::sqrt(static_cast<double>(head_dim)));
    json_["embedding_multiplier"] = factor("embedding_scale", 1);
    json_["residual_multiplier"] = factor("residual_scale", 1);
    json_["logits_scaling"] = factor("logit_scale", 1);
  }

  void read_rope(int64_t head_dim, int64_t turned) {
    Json rope = {{"rope_theta", number("rope.freq_base").value_or(10000)}};
    if (turned != head_dim) rope["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(head_dim);
    if (file_.find_tensor("rope_factors_long.weight") || file_.find_tensor("rope_factors_short.weight"))
      throw Error(ErrorKind::bad_file,
                  "{}: tensors of long and short rotary factors, which tern does not read from GGUF; take the model's "
                  "Hugging Face directory",
                  file_.path());
    const auto kind = file_.find(key("rope.scaling.type"));
    const std::string type = kind ? std::string(kind->as_string()) : "none";
    if (const GgufTensor* table = file_.find_tensor("rope_freqs.weight")) {
      read_divisors(*table, head_dim, rope);
    } else if (type == "linear" || type == "yarn") {
      rope["rope_type"] = type;
      rope["factor"] = needed_number("rope.scaling.factor");
      if (type == "yarn") {
        rope["original_max_position_embeddings"] = needed("rope.scaling.original_context_length");
        // llama.cpp's is a factor on yarn's own, transformers' stands for the whole.
        if (const auto n = number("rope.scaling.attn_factor"); n && *n != 1)
          rope["attention_factor"] = *n * (1 + 0.1 * std::log(rope["factor"].get<double>()));
        if (const auto n = number("rope.scaling.yarn_beta_fast")) rope["beta_fast"] = *n;
        if (const auto n = number("rope.scaling.yarn_beta_slow")) rope["beta_slow"] = *n;
      }
    } else if (type == "none") {
      rope["rope_type"] = "default";
    } else {
      fail(key("rope.scaling.type"), "'{}', expected none, linear or yarn", type);
    }
    json_["rope_parameters"] = rope;
  }

  // Llama 3's scaling is three numbers and a context; any other table is kept as the table it is.
  void read_divisors(const GgufTensor& table, int64_t head_dim, Json& rope) const {
    if (table.type->weight != WeightType::f32 || table.num_elements() != head_dim / 2)
      throw Error(ErrorKind::bad_file, "{}: tensor 'rope_freqs.weight' holds {} numbers of {}, expected {} of F32",
                  file_.path(), table.num_elements(), table.type->name, head_dim / 2);
    std::vector<float> want(static_cast<size_t>(head_dim / 2));
    std::memcpy(want.data(), table.bytes.data(), table.bytes.size());
    for (const float x : want)
      if (!(x > 0) || !std::isfinite(x))
        throw Error(ErrorKind::bad_file, "{}: tensor 'rope_freqs.weight' holds {}, expected numbers above 0",
                    file_.path(), x);
    if (const std::optional<HfRope> found = llama3_rope_of(want, rope["rope_theta"])) {
      rope["rope_type"] = "llama3";
      rope["factor"] = *found->factor;
      rope["original_max_position_embeddings"] = found->original_max_position_embeddings;
      rope["low_freq_factor"] = found->low_freq_factor;
      rope["high_freq_factor"] = found->high_freq_factor;
      return;
    }
    rope["rope_type"] = "longrope";
    rope["attention_factor"] = 1.0;
    rope["factor"] = 1.0;
    rope["original_max_position_embeddings"] = needed("context_length");
    rope["short_factor"] = rope["long_factor"] = want;
  }

  void read_ids() {
    const int64_t vocab = json_["vocab_size"];
    const auto id = [&](const char* at) -> Json {
      const auto value = file_.find(at);
      if (!value) return nullptr;
      const int64_t n = value->as_i64();
      if (n == 0xFFFFFFFF || n == -1) return nullptr;  // llama.cpp's "none"
      if (n < 0 || n >= vocab) fail(at, "{}, the vocabulary has {} ids", n, vocab);
      return n;
    };
    json_["bos_token_id"] = id("tokenizer.ggml.bos_token_id");
    json_["pad_token_id"] = id("tokenizer.ggml.padding_token_id");
    Json ends = id("tokenizer.ggml.eos_token_id");
    // Ends of a turn end an answer too, as in llama.cpp.
    for (const char* at : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      const Json other = id(at);
      if (other.is_null() || other == ends) continue;
      if (!ends.is_array()) ends = ends.is_null() ? Json::array() : Json::array({ends});
      if (std::find(ends.begin(), ends.end(), other) == ends.end()) ends.push_back(other);
    }
    json_["eos_token_id"] = ends;
  }

  // Of the first layer's first matrix: norms are f32 in every file.
  std::string dtype_name() const {
    const GgufTensor* t = file_.find_tensor("blk.0.attn_q.weight");
    if (!t) t = file_.find_tensor("blk.0.attn_qkv.weight");
    if (!t) t = &tensor("token_embd.weight");
    if (t->type->weight == WeightType::bf16) return "bfloat16";
    return t->type->weight == WeightType::f16 ? "float16" : "float32";
  }

  const Gguf& file_;
  std::string architecture_;
  const GgufFamily* family_ = nullptr;
  Json json_;
};

}  // namespace

HfConfig gguf_config(const Gguf& file) { return ConfigReader(file).read(); }

}  // namespace tern
