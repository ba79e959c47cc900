// What lies between the products: attention, norms and activations, the head's loss, what an operation costs by itself.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "apps/profile.h"
#include "base/system.h"
#include "formats/hf_config.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/tile_attention.h"
#include "model/unit.h"
#include "train/update.h"

namespace tern {
namespace {

template <class T>
std::vector<T> numbers(int64_t count) {
  std::vector<T> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const float value = static_cast<float>((i * 2654435761u) >> 8 & 0xff) / 256.0f - 0.5f;
    if constexpr (std::is_same_v<T, float>)
      out[i] = value;
    else
      out[i] = to_bf16(value);
  }
  return out;
}

// --- attention: 8 heads of 64, sequences of 512 tokens in training, 16 pages of a cache else ---

constexpr int64_t kHeads = 8, kHeadDim = 64, kWidth = kHeads * kHeadDim, kSeq = 512, kSequences = 4, kPage = 16,
                  kPast = 4096;

template <class T>
struct Attended {
  AttentionShape shape{.heads = kHeads,
                       .kv_heads = kHeads,
                       .head_dim = kHeadDim,
                       .scale = 0.125f,
                       .window = 0,
                       .q_stride = 3 * kWidth,
                       .kv_stride = 3 * kWidth,
                       .out_stride = kWidth};
  std::vector<int64_t> starts;
  std::vector<T> qkv, out, dout, dqkv, cache;
  std::vector<float> lse;
  std::vector<const T*> keys, values, key_pages, value_pages;
  std::vector<AttentionSequence<T>> sequences;
  bool tiles = std::is_same_v<T, bf16> && has_tile_attention();

  Attended()
      : qkv(numbers<T>(kSequences * kSeq * 3 * kWidth)),
        out(static_cast<size_t>(kSequences * kSeq * kWidth)),
        dout(numbers<T>(kSequences * kSeq * kWidth)),
        dqkv(qkv.size()),
        cache(numbers<T>(2 * kPast * kWidth)),
        lse(static_cast<size_t>(kSequences * kSeq * kHeads)),
        keys(kSequences),
        values(kSequences) {
    for (int64_t s = 0; s <= kSequences; ++s) starts.push_back(s * kSeq);
    for (size_t s = 0; s < kSequences; ++s) {
      const T* rows = qkv.data() + static_cast<int64_t>(s) * kSeq * 3 * kWidth;
      keys[s] = rows + kWidth, values[s] = rows + 2 * kWidth;
      sequences.push_back({static_cast<int64_t>(s) * kSeq, kSeq, kSeq, &keys[s], &values[s], kSeq});
    }
    for (int64_t page = 0; page < kPast / kPage; ++page) {
      key_pages.push_back(cache.data() + page * kPage * kWidth);
      value_pages.push_back(cache.data() + (kPast + page * kPage) * kWidth);
    }
  }
  void forward() {
    if constexpr (std::is_same_v<T, bf16>)
      if (tiles)
        return tile_attention_forward(shape, starts, qkv.data(), qkv.data() + kWidth, qkv.data() + 2 * kWidth,
                                      out.data(), lse);
    attention_forward<T>(shape, sequences, qkv.data(), out.data(), lse);
  }
  void backward() {
    const T *q = qkv.data(), *k = q + kWidth, *v = k + kWidth;
    T *dq = dqkv.data(), *dk = dq + kWidth, *dv = dk + kWidth;
    if constexpr (std::is_same_v<T, bf16>)
      if (tiles) return tile_attention_backward(shape, starts, q, k, v, out.data(), dout.data(), lse, dq, dk, dv);
    attention_backward<T>(shape, starts, q, k, v, out.data(), dout.data(), lse, dq, dk, dv);
  }
  // `queries` new positions, the last of kPast (decode) or of their own number (a prompt).
  void read(int64_t queries, int64_t num_keys) {
    AttentionShape paged = shape;
    paged.kv_stride = kWidth;
    const AttentionSequence<T> one{0, queries, num_keys, key_pages.data(), value_pages.data(), kPage};
    attention_forward<T>(paged, std::span(&one, 1), qkv.data(), out.data(), {});
  }
};

template <class T>
void add_attention(ProfileTasks& out) {
  const auto a = std::make_shared<Attended<T>>();
  constexpr DType dtype = DTypeOf<T>::value;
  const double pairs = kSeq * (kSeq + 1) / 2.0, flops = 4 * pairs * kWidth;
  const auto add = [&](FigureKind kind, const char* unit, double amount, auto call) {
    out.add({.kind = kind, .dtype = dtype},
            {.unit = unit, .once = [=] { return rate_of(amount, kPointSeconds, [&] { call(*a); }); }});
  };
  add(FigureKind::attention_forward, "FLOP/s", kSequences * flops, [](Attended<T>& x) { x.forward(); });
  add(FigureKind::attention_backward, "FLOP/s", kSequences * flops * 2.5, [](Attended<T>& x) { x.backward(); });
  add(FigureKind::prefill, "FLOP/s", flops, [](Attended<T>& x) { x.read(kSeq, kSeq); });
  add(FigureKind::decode, "B/s", 2.0 * kPast * kWidth * sizeof(T), [](Attended<T>& x) { x.read(1, kPast); });
}

// --- norms and activations, forward and backward; bytes as unit_cost counts them ---

template <class T>
struct Rowwise {
  static constexpr int64_t kRows = 2048, kNormed = 512, kHidden = 1536;
  std::vector<T> x, y, dx, w, up, act, dup;
  std::vector<float> rstd;
  Rowwise()
      : x(numbers<T>(kRows * kNormed)),
        y(x.size()),
        dx(x.size()),
        w(numbers<T>(kNormed)),
        up(numbers<T>(kRows * 2 * kHidden)),
        act(static_cast<size_t>(kRows * kHidden)),
        dup(up.size()),
        rstd(kRows) {}
  void run() {
    rms_norm<T>(x, w, 1e-5f, y, rstd);
    gated_activation<T>(Activation::silu, kHidden, up, act);
    gated_activation_backward<T>(Activation::silu, kHidden, up, act, act, dup);
    rms_norm_backward_input<T>(y, x, w, rstd, dx, true);
  }
  static double bytes() { return static_cast<double>(sizeof(T)) * kRows * (kNormed * (2 + 4) + kHidden * (3 + 6)); }
};

template <class T>
void add_rowwise(ProfileTasks& out) {
  const auto rows = std::make_shared<Rowwise<T>>();
  out.add({.kind = FigureKind::elementwise, .dtype = DTypeOf<T>::value},
          {.unit = "B/s", .once = [=] { return rate_of(Rowwise<T>::bytes(), kPointSeconds, [&] { rows->run(); }); }});
}

// --- the head's loss with both gradients, as the trainer calls it ---

struct Head {
  static constexpr int64_t kRows = 512;
  ModelSpec spec;
  Arena arena;
  ModelWeights weights, gradients;
  Tensor x;
  std::vector<int32_t> tokens, targets;
  Rows rows;
  Head(int64_t vocab, int64_t width, DType dtype) {
    const std::string config = fmt::format(
        R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": {},
           "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
           "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}})",
        vocab, width);
    spec = model_spec(parse_hf_config(config, "the profile's head"));
    weights = allocate_weights(spec, dtype, MemoryClass::weights, arena);
    initialize_weights(spec, weights, 1);
    gradients = allocate_weights(spec, DType::f32, MemoryClass::gradients, arena);
    zero_gradients(spec, gradients);
    x = arena.zeros(dtype, {kRows, width}, MemoryClass::activations);
    for (int64_t i = 0; i < kRows; ++i) tokens.push_back(0), targets.push_back(static_cast<int32_t>(i * 7 % vocab));
    rows = make_rows(tokens, {0, kRows}, nullptr);
  }
  void run() {
    HeadSaved saved;
    head_forward_loss(spec, weights, rows, x, targets, 1e-6, saved, gradients, {arena, Multiply::fast});
  }
};

void add_heads(const ProfileSettings& settings, DType dtype, ProfileTasks& out) {
  const std::vector<int64_t> widths = settings.quick ? std::vector<int64_t>{512} : std::vector<int64_t>{256, 1024};
  for (const int64_t vocab : {int64_t{4096}, int64_t{32768}})
    for (const int64_t width : widths) {
      if (vocab * width * 12 > settings.memory_bytes / 8) continue;
      const auto head = std::make_shared<Head>(vocab, width, dtype);
      const double flops = 6.0 * Head::kRows * static_cast<double>(vocab) * static_cast<double>(width);
      out.add({FigureKind::product, dtype, ProductUse::head, Head::kRows, vocab, width},
              {.unit = "FLOP/s", .once = [=] { return rate_of(flops, kPointSeconds, [&] { head->run(); }); }});
    }
}

}  // namespace

void add_kernel_tasks(const ProfileSettings& settings, ProfileTasks& out) {
  add_attention<float>(out);
  add_attention<bf16>(out);
  add_rowwise<float>(out);
  add_rowwise<bf16>(out);
  add_heads(settings, DType::f32, out);
  add_heads(settings, DType::bf16, out);
  out.add({.kind = FigureKind::calls}, engine_calls_task());
}

}  // namespace tern
