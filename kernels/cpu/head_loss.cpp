#include "kernels/cpu/head_loss.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/head_loss_table.h"
#include "kernels/cpu/pieces_impl.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const HeadLossTable& table() { return TERN_TABLE_OF(head_loss_table, active_isa()); }

void place(Pieces& pieces, HeadLossTask& t, std::vector<HeadLossThread>& threads) {
  const int64_t rows = t.padded_rows = round_up(t.rows, 32), width = t.padded_width = round_up(t.width, 32);
  const int64_t vocab = round_up(t.vocab, 32);
  t.x_columns = pieces.take<bf16>(rows * width);
  t.x_rows = pieces.take<bf16>(rows * width);
  t.kept = pieces.take<bf16>(rows * vocab);
  t.tops = pieces.take<float>(vocab / 32 * rows);
  t.lse = pieces.take<float>(rows);
  for (HeadLossThread& own : threads) {
    own.top = pieces.take<float>(rows);
    own.sum = pieces.take<float>(rows);
    own.factor = pieces.take<float>(rows);
    own.dx_columns = pieces.take<float>(rows * width);
    own.strip = pieces.take<bf16>(32 * width);
    own.w_columns = pieces.take<bf16>(kHeadBlock * width);
    own.dz_left = pieces.take<bf16>(kHeadBlock * rows);
    own.dz_rows = pieces.take<bf16>(kHeadBlock * rows);
  }
}

/// Parts of the vocabulary: as many as threads, but none without a block.
int64_t num_parts(int64_t vocab) {
  return std::clamp<int64_t>(vocab / kHeadBlock, 1, std::max(1, omp_get_max_threads()));
}

// A rank with none of the vocabulary still takes part in what the ranks do.
void join_without_part(std::span<float> losses, std::span<bf16> dx, const JoinHeadParts& join) {
  std::vector<float> lse(losses.size(), -std::numeric_limits<float>::infinity());
  std::ranges::fill(losses, 0.0f);
  std::ranges::fill(dx, bf16{});
  if (join) join(lse, losses);
}

}  // namespace

bool has_head_loss() { return table().present; }

int64_t head_loss_scratch_bytes(const HeadLossTable& kernels, int64_t rows, int64_t vocab, int64_t width) {
  if (!kernels.present || rows == 0 || vocab == 0 || width == 0) return 0;
  HeadLossTask t{.rows = std::min(rows, kHeadLossRows), .vocab = vocab, .width = width};
  std::vector<HeadLossThread> threads(static_cast<size_t>(num_parts(vocab)));
  Pieces pieces{nullptr};
  place(pieces, t, threads);
  return pieces.taken + 64;  // to begin on a line
}

int64_t head_loss_scratch_bytes(int64_t rows, int64_t vocab, int64_t width) {
  return head_loss_scratch_bytes(table(), rows, vocab, width);
}

void head_loss(const HeadLossTable& kernels, int64_t vocab, int64_t width, std::span<const int32_t> targets,
               float scale, std::span<const bf16> x, std::span<const bf16> w, std::span<float> losses,
               std::span<bf16> dx, std::span<float> dw, std::span<std::byte> scratch, const JoinHeadParts& join) {
  const auto rows = static_cast<int64_t>(targets.size());
  const auto size = [](auto s) { return static_cast<int64_t>(s.size()); };
  TERN_CHECK(kernels.present, "head_loss: this instruction set has no fused head");
  TERN_CHECK(rows <= kHeadLossRows && size(losses) == rows && size(x) == rows * width && size(dx) == rows * width &&
                 size(w) == vocab * width && size(dw) == vocab * width &&
                 size(scratch) >= head_loss_scratch_bytes(kernels, rows, vocab, width),
             "head_loss: {} rows, {} losses, x {}, dx {}, w {}, dw {} of {} × {}, {} bytes of scratch", rows,
             losses.size(), x.size(), dx.size(), w.size(), dw.size(), vocab, width, scratch.size());
  if (rows == 0 || width == 0) return;
  if (vocab == 0) return join_without_part(losses, dx, join);

  HeadLossTask task{.rows = rows,
                    .vocab = vocab,
                    .width = width,
                    .x = x.data(),
                    .w = w.data(),
                    .targets = targets.data(),
                    .scale = scale,
                    .losses = losses.data(),
                    .dw = dw.data(),
                    .dx = dx.data()};
  const int64_t parts = num_parts(vocab);
  std::vector<HeadLossThread> own(static_cast<size_t>(parts));
  const auto start = reinterpret_cast<uintptr_t>(scratch.data());
  Pieces pieces{scratch.data() + (round_up(static_cast<int64_t>(start), 64) - static_cast<int64_t>(start))};
  place(pieces, task, own);

  const int64_t blocks = ceil_div(vocab, kHeadBlock);
  const auto begin = [&](int64_t part) { return std::min(vocab, blocks * part / parts * kHeadBlock); };
  // Fewer threads than parts may have come; each part is whole work of its own between the barriers.
  const auto for_parts = [&](auto work) {
    for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) work(part);
  };
#pragma omp parallel num_threads(static_cast <int>(parts)) if (parts > 1)
  {
    for_parts([&](int64_t part) { kernels.pack(task, part, parts); });
#pragma omp barrier
    for_parts([&](int64_t part) { kernels.forward(task, own[part], begin(part), begin(part + 1)); });
  }
  kernels.combine(task, own.data(), parts);
  if (join)
    join({task.lse, static_cast<size_t>(rows)}, losses);
  else
    for (int64_t r = 0; r < rows; ++r)
      if (targets[r] >= 0) losses[r] += task.lse[r];
#pragma omp parallel num_threads(static_cast <int>(parts)) if (parts > 1)
  {
    for_parts([&](int64_t part) { kernels.backward(task, own[part], begin(part), begin(part + 1)); });
#pragma omp barrier
    for_parts([&](int64_t part) { kernels.finish(task, own.data(), part, parts); });
  }
}

void head_loss(int64_t vocab, int64_t width, std::span<const int32_t> targets, float scale, std::span<const bf16> x,
               std::span<const bf16> w, std::span<float> losses, std::span<bf16> dx, std::span<float> dw,
               std::span<std::byte> scratch, const JoinHeadParts& join) {
  head_loss(table(), vocab, width, targets, scale, x, w, losses, dx, dw, scratch, join);
}

}  // namespace tern
