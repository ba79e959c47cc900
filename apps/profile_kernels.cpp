// What lies between the products: attention, norms and activations, the head's loss, what an operation costs by itself.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "apps/profile.h"
#include "apps/profile_buffers.h"
#include "base/system.h"
#include "formats/hf/config.h"
#include "infer/sampling.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/unit.h"

namespace tern {
namespace {

// --- attention: 8 heads, 2048 tokens in short and in long sequences; in inference pages of a cache ---

constexpr int64_t kHeads = 8, kRows = 2048, kPage = 16;
// A pair costs what does not depend on the head's size, and tiles or vectors that the size does not fill.
std::vector<int64_t> head_sizes(bool quick) {
  return quick ? std::vector<int64_t>{32, 64, 128} : std::vector<int64_t>{32, 48, 64, 80, 96, 128};
}

/// What attention of any size of head reads and writes, one after the other.
template <class T>
struct AttentionRoom {
  ProfileBuffers buffers;
  std::span<T> qkv, out, dout, dqkv, cache;
  std::span<float> lse;
  explicit AttentionRoom(int64_t width)
      : qkv(buffers.numbers<T>(kRows * 3 * width)),
        out(buffers.room<T>(kRows * width)),
        dout(buffers.numbers<T>(kRows * width)),
        dqkv(buffers.room<T>(kRows * 3 * width)),
        cache(buffers.numbers<T>(2 * kLongSequence * width)),
        lse(buffers.room<float>(kRows * kHeads)) {}
};

template <class T>
struct Attended {
  int64_t width;
  AttentionShape shape;
  std::shared_ptr<AttentionRoom<T>> room;
  std::span<T> qkv, out, dout, dqkv, cache;
  std::span<float> lse;
  std::vector<int64_t> starts;
  std::vector<AttentionSequence<T>> sequences;
  const T *cached_keys = nullptr, *cached_values = nullptr;
  std::vector<int32_t> pages;
  bool tiles = std::is_same_v<T, bf16> && has_tile_attention();

  // Sequences of `seq` tokens, kRows in all.
  Attended(int64_t seq, int64_t head, const std::shared_ptr<AttentionRoom<T>>& all)
      : width(kHeads * head),
        shape{.heads = kHeads,
              .kv_heads = kHeads,
              .head_dim = head,
              .scale = 0.125f,
              .window = 0,
              .q_stride = 3 * width,
              .kv_stride = 3 * width,
              .out_stride = width},
        room(all),
        qkv(room->qkv.first(static_cast<size_t>(kRows * 3 * width))),
        out(room->out.first(static_cast<size_t>(kRows * width))),
        dout(room->dout.first(static_cast<size_t>(kRows * width))),
        dqkv(room->dqkv.first(static_cast<size_t>(kRows * 3 * width))),
        cache(room->cache.first(static_cast<size_t>(2 * kLongSequence * width))),
        lse(room->lse) {
    for (int64_t row = 0; row <= kRows; row += seq) starts.push_back(row);
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      const T* rows = qkv.data() + starts[s] * 3 * width;
      sequences.push_back({starts[s], seq, seq, rows + width, rows + 2 * width});
    }
    lay_cache(cache.data(), kLongSequence);
  }
  // Keys and values of so many tokens from `at` on.
  void lay_cache(const T* at, int64_t tokens) {
    cached_keys = at, cached_values = at + tokens * width;
    pages.resize(static_cast<size_t>(tokens / kPage));
    std::iota(pages.begin(), pages.end(), 0);
  }
  void forward() {
    if constexpr (std::is_same_v<T, bf16>)
      if (tiles)
        return tile_attention_forward(shape, starts, qkv.data(), qkv.data() + width, qkv.data() + 2 * width, out.data(),
                                      lse);
    attention_forward<T>(shape, sequences, qkv.data(), out.data(), lse);
  }
  void backward() {
    const T *q = qkv.data(), *k = q + width, *v = k + width;
    T *dq = dqkv.data(), *dk = dq + width, *dv = dk + width;
    if constexpr (std::is_same_v<T, bf16>)
      if (tiles) return tile_attention_backward(shape, starts, q, k, v, out.data(), dout.data(), lse, dq, dk, dv);
    attention_backward<T>(shape, starts, q, k, v, out.data(), dout.data(), lse, dq, dk, dv);
  }
  // `queries` new positions, the last of `num_keys`.
  void read(int64_t queries, int64_t num_keys) {
    const int64_t head = shape.head_dim;
    const AttentionSequence<T> one{
        0, queries, num_keys, cached_keys, cached_values, pages.data(), {kPage, kPage * width, head, kPage * head}};
    attention_forward<T>(shape, std::span(&one, 1), qkv.data(), out.data(), {});
  }
};

// A decoded token's keys and values: its model's weights were read since the token before.
struct ColdCache {
  ProfileBuffers buffers;
  std::span<uint16_t> numbers;
  size_t at = 0;
  explicit ColdCache(int64_t bytes) : numbers(buffers.room<uint16_t>(bytes / 2)) {
    std::fill(numbers.begin(), numbers.end(), uint16_t{0x3c00});  // 0.0078 as f32 and as bf16
  }
  template <class T>
  const T* next(int64_t count) {
    const size_t halves = static_cast<size_t>(count) * sizeof(T) / 2;
    if (at + halves > numbers.size()) at = 0;
    const T* from = reinterpret_cast<const T*>(numbers.data() + at);
    at += halves;
    return from;
  }
};

template <class T>
void add_attention(int64_t head, const std::shared_ptr<AttentionRoom<T>>& room, const std::shared_ptr<ColdCache>& cold,
                   ProfileTasks& out) {
  constexpr DType dtype = DTypeOf<T>::value;
  const auto width = static_cast<double>(kHeads * head);
  const auto add = [&](FigureKind kind, int64_t length, const char* unit, double amount, const auto& a, auto call) {
    out.add({.kind = kind, .dtype = dtype, .m = length, .n = head},
            {.unit = unit, .once = [=] { return rate_of(amount, kPointSeconds, [&] { call(*a); }); }});
  };
  for (const int64_t seq : {kShortSequence, kLongSequence}) {
    const auto a = std::make_shared<Attended<T>>(seq, head, room);
    const double flops = 4 * width * static_cast<double>(seq * (seq + 1) / 2) * static_cast<double>(kRows / seq);
    add(FigureKind::attention_forward, seq, "FLOP/s", flops, a, [](Attended<T>& x) { x.forward(); });
    add(FigureKind::attention_backward, seq, "FLOP/s", flops * 2.5, a, [](Attended<T>& x) { x.backward(); });
  }
  const auto a = std::make_shared<Attended<T>>(kRows, head, room);
  for (const int64_t seq : {kShortSequence, kLongSequence})
    add(FigureKind::prefill, seq, "FLOP/s", 4 * width * static_cast<double>(seq * (seq + 1) / 2), a,
        [seq](Attended<T>& x) { x.read(seq, seq); });
  for (const int64_t keys : {kShortSequence, kLongSequence})
    add(FigureKind::decode, keys, "B/s", 2 * width * static_cast<double>(keys) * sizeof(T), a,
        [keys, cold](Attended<T>& x) {
          x.lay_cache(cold->next<T>(2 * keys * x.width), keys);
          x.read(1, keys);
        });
}

// --- norms and activations, forward and backward; bytes as unit_cost counts them ---

template <class T>
struct Rowwise {
  static constexpr int64_t kNormed = 512, kHidden = 1536;
  ProfileBuffers buffers;
  std::span<T> x = buffers.numbers<T>(kRows * kNormed), y = buffers.room<T>(kRows * kNormed),
               dx = buffers.room<T>(kRows * kNormed), w = buffers.numbers<T>(kNormed),
               up = buffers.numbers<T>(kRows * 2 * kHidden), act = buffers.room<T>(kRows * kHidden),
               dup = buffers.room<T>(kRows * 2 * kHidden);
  std::span<float> rstd = buffers.room<float>(kRows);
  void run() {
    rms_norm<T>(x, w, 1e-5f, y, rstd);
    gated_activation<T>(Activation::silu, kHidden, up, act);
    gated_activation_backward<T>(Activation::silu, kHidden, up, act, act, dup);
    rms_norm_backward_input<T>(y, x, w, rstd, dx, true);
  }
  static double bytes() { return static_cast<double>(sizeof(T)) * kRows * (kNormed * (2 + 4) + kHidden * (3 + 6)); }
};

// Several in turn, so that no cache holds what a pass reads first and writes.
template <class T>
void add_rowwise(const ProfileSettings& settings, ProfileTasks& out) {
  const double bytes = std::min(256e6, static_cast<double>(settings.memory_bytes) / 32);
  std::vector<std::shared_ptr<Rowwise<T>>> all;
  do all.push_back(std::make_shared<Rowwise<T>>());
  while (static_cast<double>(all.size()) * Rowwise<T>::bytes() / 2 < bytes);
  const auto turn = std::make_shared<size_t>(0);
  out.add({.kind = FigureKind::elementwise, .dtype = DTypeOf<T>::value},
          {.unit = "B/s", .once = [=] {
             return rate_of(Rowwise<T>::bytes(), kPointSeconds, [&] { all[(*turn)++ % all.size()]->run(); });
           }});
}

// --- AdamW's step with the gradients' norm before it, over tensors that no cache holds ---

struct Update {
  ProfileBuffers buffers;
  std::span<float> gradient, weight, first, second;
  std::span<bf16> rounded;
  explicit Update(int64_t count)
      : gradient(buffers.numbers<float>(count)),
        weight(buffers.numbers<float>(count)),
        first(buffers.room<float>(count)),
        second(buffers.room<float>(count)),
        rounded(buffers.room<bf16>(count)) {}
  void run(DType dtype) {
    const AdamwStep step{.learning_rate = 1e-4,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .epsilon = 1e-8,
                         .weight_decay = 0.1,
                         .step = 1,
                         .gradient_scale = 1 / (1 + sum_of_squares(std::span<const float>(gradient)))};
    adamw_step_and_clear(step, gradient, weight, first, second, dtype == DType::bf16 ? rounded : std::span<bf16>{});
  }
};

void add_sampling(ProfileTasks& out) {
  constexpr int64_t kVocab = 32000;
  const auto logits = std::make_shared<std::vector<float>>(kVocab);
  fill_probe(std::span<float>(*logits));
  out.add({.kind = FigureKind::sampling}, {.unit = "B/s", .once = [=] {
                                             return rate_of(4.0 * kVocab, kPointSeconds, [&] {
                                               std::vector<float> own = *logits;  // as the executor hands them on
                                               const int32_t token = sample_token({}, {}, 0, 0, 0, own);
                                               static_cast<void>(log_probability(own, token));
                                             });
                                           }});
}

void add_updates(const ProfileSettings& settings, ProfileTasks& out) {
  const int64_t count = std::min<int64_t>(int64_t{1} << 24, settings.memory_bytes / 256);
  const auto update = std::make_shared<Update>(count);
  for (const DType dtype : {DType::f32, DType::bf16})
    out.add({.kind = FigureKind::update, .dtype = dtype}, {.unit = "B/s", .once = [=] {
                                                             return rate_of(
                                                                 static_cast<double>(count * update_bytes(dtype)),
                                                                 kPointSeconds, [&] { update->run(dtype); });
                                                           }});
}

// --- the head's loss with both gradients, as the trainer calls it ---

struct Head {
  ModelSpec spec;
  Arena arena;
  ModelWeights weights, gradients;
  Tensor x;
  std::vector<int32_t> tokens, targets;
  Head(int64_t most_rows, int64_t vocab, int64_t width, DType dtype) {
    const std::string config = fmt::format(
        R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": {},
           "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
           "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}})",
        vocab, width);
    spec = model_spec(parse_hf_config(config, "the profile's head"));
    weights = allocate_weights(spec, dtype, MemoryClass::weights, arena);
    initialize_weights(spec, weights, 1);
    gradients = allocate_gradients(spec, dtype, arena);
    // Numbers, not zeros: of zeros matrix units draw less power and run faster.
    x = arena.allocate(dtype, {most_rows, width}, MemoryClass::activations);
    if (dtype == DType::bf16)
      fill_probe(x.span<bf16>());
    else
      fill_probe(x.span<float>());
    tokens.assign(static_cast<size_t>(most_rows), 0);
    for (int64_t i = 0; i < most_rows; ++i) targets.push_back(static_cast<int32_t>(i * 7 % vocab));
  }
  void run(int64_t count) {
    HeadSaved saved;
    const auto first = static_cast<size_t>(count);
    const Rows rows = make_rows(std::span(tokens).first(first), {0, count}, nullptr);
    head_forward_loss(spec, head_of(weights), rows, x.rows_view(0, count), std::span(targets).first(first), 1e-6, saved,
                      head_of(gradients), {arena, Multiply::fast});
  }
};

// A head's table and its gradient were last touched a step ago: before each run all of `cold` passes through the
// caches, outside the time.
double rate_after(const ColdCache& cold, double flops, Head& head, int64_t count) {
  Clock& clock = real_clock();
  double seconds = 0, done = 0;
  for (; seconds < kPointSeconds; done += flops) {
    const std::span<const float> all(reinterpret_cast<const float*>(cold.numbers.data()), cold.numbers.size() / 2);
    TERN_CHECK(sum_of_squares(all) > 0, "profile: numbers between two heads are zeros");
    const int64_t begin = clock.now_ns();
    head.run(count);
    seconds += seconds_between(begin, clock.now_ns());
  }
  return done / seconds;
}

void add_heads(const ProfileSettings& settings, DType dtype, const std::shared_ptr<ColdCache>& cold,
               ProfileTasks& out) {
  // Rows: each pass over the table's gradient is shared by all of a micro-batch.
  const std::vector<int64_t> counts = settings.quick ? std::vector<int64_t>{1024} : std::vector<int64_t>{512, 2048};
  const std::vector<int64_t> widths{256, 1024};
  // A whole grid: the largest vocabulary whose head has room at every width. Few vocabularies are powers of two, and
  // those take a sixth longer: rows of logits so far apart meet in few lines of a cache.
  std::vector<int64_t> vocabularies{4000};
  for (const int64_t vocab : {32'000, 16'000, 8'000})
    if (vocabularies.size() == 1 && vocab * widths.back() * 12 <= settings.memory_bytes / 16)
      vocabularies.push_back(vocab);
  for (const int64_t vocab : vocabularies)
    for (const int64_t width : widths) {
      const auto head = std::make_shared<Head>(counts.back(), vocab, width, dtype);
      for (const int64_t count : counts) {
        const double flops = 6.0 * static_cast<double>(count) * static_cast<double>(vocab) * static_cast<double>(width);
        out.add({FigureKind::product, dtype, ProductUse::head, count, vocab, width},
                {.unit = "FLOP/s", .once = [=] { return rate_after(*cold, flops, *head, count); }});
      }
    }
}

}  // namespace

void add_kernel_tasks(const ProfileSettings& settings, ProfileTasks& out) {
  const auto cold =
      std::make_shared<ColdCache>(std::min<int64_t>(int64_t{1} << 29, settings.memory_bytes / 16) / 64 * 64);
  const std::vector<int64_t> heads = head_sizes(settings.quick);
  const int64_t width = kHeads * *std::ranges::max_element(heads);
  const auto f32_room = std::make_shared<AttentionRoom<float>>(width);
  const auto bf16_room = std::make_shared<AttentionRoom<bf16>>(width);
  for (const int64_t head : heads) {
    add_attention<float>(head, f32_room, cold, out);
    add_attention<bf16>(head, bf16_room, cold, out);
  }
  add_rowwise<float>(settings, out);
  add_rowwise<bf16>(settings, out);
  add_updates(settings, out);
  add_sampling(out);
  add_heads(settings, DType::f32, cold, out);
  add_heads(settings, DType::bf16, cold, out);
  out.add({.kind = FigureKind::calls}, engine_calls_task());
}

}  // namespace tern
