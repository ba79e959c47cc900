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
#include "formats/gguf/config_families.h"
#include "formats/gguf/families.h"
#include "formats/gguf/keys.h"
#include "formats/gguf/model.h"
#include "formats/gguf/rope.h"
#include "formats/hf/config_impl.h"

namespace tern {
namespace {

// The part whose product with `whole`, rounded down, is `part`.
double part_of(int64_t part, int64_t whole) {
  double x = static_cast<double>(part) / static_cast<double>(whole);
  while (static_cast<int64_t>(x * static_cast<double>(whole)) < part) x = std::nextafter(x, 2.0);
  return x;
}

class ConfigReader {
 public:
  explicit ConfigReader(const Gguf& file) : file_(file), keys_{file, {}} {
    refuse_parts();
    keys_.architecture = std::string(file.get("general.architecture").as_string());
    family_ = gguf_family_of_architecture(keys_.architecture);
    if (!family_)
      keys_.fail("general.architecture",
                 "'{}', which tern does not read from GGUF; take the model's Hugging Face directory",
                 keys_.architecture);
  }

  HfConfig read() {
    auto window = keys_.integer("attention.sliding_window");
    if (window == 0) window = {};  // as Phi-4's files say "none"
    const int64_t experts = keys_.integer("expert_count").value_or(0);
    family_ = gguf_family_of_architecture(keys_.architecture, window.has_value(), experts > 0);
    if (experts > 0 && !family_->mixture)
      keys_.fail(keys_.key("expert_count"),
                 "{}: mixtures of experts of this architecture are not read from GGUF; take the model's Hugging Face "
                 "directory",
                 experts);
    const HfFamily& family = *find_hf_family(family_->model_type);
    json_["model_type"] = family_->model_type;
    const int64_t width = keys_.needed("embedding_length"), heads = keys_.needed("attention.head_count");
    const int64_t layers = keys_.needed("block_count");
    if (static_cast<uint64_t>(layers) > file_.tensors().size())
      keys_.fail(keys_.key("block_count"), "{}, but the file holds {} tensors", layers, file_.tensors().size());
    if (keys_.tensor("token_embd.weight").sizes[0] != width)
      keys_.fail(keys_.key("embedding_length"), "{}, tensor 'token_embd.weight' has rows of {}", width,
                 keys_.tensor("token_embd.weight").sizes[0]);
    json_["vocab_size"] = keys_.tensor("token_embd.weight").sizes[1];
    put("hidden_size", width);
    put("num_hidden_layers", layers);
    put("num_attention_heads", heads);
    put("max_position_embeddings", keys_.needed("context_length"));
    put("intermediate_size", keys_.needed("feed_forward_length"));
    put("norm_eps", keys_.needed_number(gguf_epsilon_key(family)));
    json_["tie_word_embeddings"] = is_tied();
    put("hidden_act", family_->activation);
    if (family.blocks.positions == HfPositions::rotary) {
      read_llama_like(family, width, heads);
      if (window && family.blocks.windows == HfWindows::every) json_["sliding_window"] = *window;
      if (family.blocks.windows == HfWindows::listed) json_["sliding_window"] = window ? Json(*window) : Json(nullptr);
    }
    if (family_->full_every > 0) read_gguf_gemma(keys_, *family_, family, json_);
    if (family_->mixture) read_gguf_experts(keys_, *family_, family, json_);
    read_gguf_branches(keys_, *family_, family, json_);
    read_ids();
    json_["dtype"] = dtype_name();
    return parse_hf_config(dump_json(json_), file_.path());
  }

 private:
  // Under the family's name; a value that its file does not state follows from others.
  void put(std::string_view field, Json value) {
    if (has_hf_key(*find_hf_family(family_->model_type), field))
      json_[std::string(hf_key(family_->model_type, field))] = std::move(value);
  }

  void refuse_parts() const {
    const auto parts = file_.find("split.count");
    if (parts && parts->as_u64() > 1 && file_.paths().size() == 1)
      keys_.fail("split.count", "one of {} files; name the first of them, NAME-00001-of-{:05}.gguf", parts->as_u64(),
                 parts->as_u64());
  }

  // A head of its own that holds the table's numbers is the table.
  bool is_tied() const {
    const GgufTensor* head = file_.find_tensor("output.weight");
    const GgufTensor& table = keys_.tensor("token_embd.weight");
    return !head || (head->type == table.type && std::ranges::equal(head->sizes, table.sizes) &&
                     std::memcmp(head->bytes.data(), table.bytes.data(), table.bytes.size()) == 0);
  }

  void read_llama_like(const HfFamily& family, int64_t width, int64_t heads) {
    const int64_t kv_heads = keys_.integer("attention.head_count_kv").value_or(heads);
    if (family.has_kv_heads)
      put("num_key_value_heads", kv_heads);
    else if (kv_heads != heads)
      keys_.fail(keys_.key("attention.head_count_kv"), "{}, but {} models have as many as heads, {}", kv_heads,
                 family.name, heads);
    const int64_t head_dim = keys_.integer("attention.key_length").value_or(width / heads);
    if (const auto values = keys_.integer("attention.value_length"); values && *values != head_dim)
      keys_.fail(keys_.key("attention.value_length"), "{}, but keys have {}, which tern does not have", *values,
                 head_dim);
    const int64_t turned = keys_.integer("rope.dimension_count").value_or(head_dim);
    if (turned != head_dim && (!family.defaults.partial_rotary || turned < 2 || turned > head_dim))
      keys_.fail(keys_.key("rope.dimension_count"), "{} of a head's {} elements, which {} models do not have", turned,
                 head_dim, family.name);
    if (head_dim < 2 || head_dim > INT32_MAX)
      keys_.fail(keys_.key("attention.key_length"), "{}, expected 2 or more", head_dim);
    if (family.has_head_dim)
      json_["head_dim"] = head_dim;
    else if (head_dim * heads != width)
      keys_.fail(keys_.key("attention.key_length"), "{}, but {} models have {} / {}", head_dim, family.name, width,
                 heads);
    const std::string bias = option_key(family, &HfConfig::attention_bias);
    if (!bias.empty()) json_[bias] = file_.find_tensor("blk.0.attn_q.bias") || file_.find_tensor("blk.0.attn_qkv.bias");
    if (const std::string of_mlp = option_key(family, &HfConfig::mlp_bias); !of_mlp.empty() && of_mlp != bias)
      json_[of_mlp] = file_.find_tensor("blk.0.ffn_up.bias") != nullptr;
    if (family_->multipliers) read_multipliers(head_dim);
    read_rope(family, head_dim, turned);
  }

  // Zero is llama.cpp's word for "none".
  void read_multipliers(int64_t head_dim) {
    const auto factor = [&](std::string_view name, double none) {
      const double x = keys_.number(name).value_or(0);
      return x == 0 ? none : x;
    };
    json_["attention_multiplier"] = factor("attention.scale", 1 / std::sqrt(static_cast<double>(head_dim)));
    json_["embedding_multiplier"] = factor("embedding_scale", 1);
    json_["residual_multiplier"] = factor("residual_scale", 1);
    json_["logits_scaling"] = factor("logit_scale", 1);
  }

  void read_rope(const HfFamily& family, int64_t head_dim, int64_t turned) {
    Json rope = {{"rope_theta", keys_.number("rope.freq_base").value_or(10000)}};
    if (family.defaults.partial_rotary) rope["partial_rotary_factor"] = part_of(turned, head_dim);
    if (file_.find_tensor("rope_factors_long.weight") || file_.find_tensor("rope_factors_short.weight"))
      throw Error(ErrorKind::bad_file,
                  "{}: tensors of long and short rotary factors, which tern does not read from GGUF; take the model's "
                  "Hugging Face directory",
                  file_.path());
    const auto kind = file_.find(keys_.key("rope.scaling.type"));
    const std::string type = kind ? std::string(kind->as_string()) : "none";
    if (const GgufTensor* table = file_.find_tensor("rope_freqs.weight")) {
      read_divisors(*table, head_dim, rope);
    } else if (type == "linear" || type == "yarn") {
      rope["rope_type"] = type;
      rope["factor"] = keys_.needed_number("rope.scaling.factor");
      if (type == "yarn") {
        rope["original_max_position_embeddings"] = keys_.needed("rope.scaling.original_context_length");
        if (family_->untruncated_yarn) rope["truncate"] = false;
        // llama.cpp's is a factor on yarn's own, transformers' stands for the whole.
        if (const auto n = keys_.number("rope.scaling.attn_factor"); n && *n != 1)
          rope["attention_factor"] = *n * (1 + 0.1 * std::log(rope["factor"].get<double>()));
        if (const auto n = keys_.number("rope.scaling.yarn_beta_fast")) rope["beta_fast"] = *n;
        if (const auto n = keys_.number("rope.scaling.yarn_beta_slow")) rope["beta_slow"] = *n;
      }
    } else if (type == "none") {
      rope["rope_type"] = "default";
    } else {
      keys_.fail(keys_.key("rope.scaling.type"), "'{}', expected none, linear or yarn", type);
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
    rope["original_max_position_embeddings"] = keys_.needed("context_length");
    rope["short_factor"] = rope["long_factor"] = want;
  }

  void read_ids() {
    const int64_t vocab = json_["vocab_size"];
    const auto id = [&](const char* at) -> Json {
      const auto value = file_.find(at);
      if (!value) return nullptr;
      const int64_t n = value->as_i64();
      if (n == 0xFFFFFFFF || n == -1) return nullptr;  // llama.cpp's "none"
      if (n < 0 || n >= vocab) keys_.fail(at, "{}, the vocabulary has {} ids", n, vocab);
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
    if (!t) t = &keys_.tensor("token_embd.weight");
    if (t->type->weight == WeightType::bf16) return "bfloat16";
    return t->type->weight == WeightType::f16 ? "float16" : "float32";
  }

  const Gguf& file_;
  GgufKeys keys_;
  const GgufFamily* family_ = nullptr;
  Json json_;
};

}  // namespace

bool is_gguf_path(std::string_view path) { return path.ends_with(".gguf"); }

HfConfig gguf_config(const Gguf& file) { return ConfigReader(file).read(); }

}  // namespace tern
