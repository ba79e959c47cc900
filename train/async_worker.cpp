#include "train/async_worker.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/wide_type.h"
#include "kernels/cpu/parallel.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "model/weights.h"
#include "program/lower.h"
#include "program/validate.h"
#include "train/async_messages.h"
#include "train/step_placement.h"
#include "update/squares.h"

namespace tern {
namespace {

// g = factor·g + decay·w.
template <class T>
void finish_gradient(double factor, double decay, std::span<const T> w, std::span<T> g) {
  const auto f = static_cast<T>(factor), d = static_cast<T>(decay);
  parallel_ranges(std::ssize(g), kParallelGrain, 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) g[i] = f * g[i] + d * w[i];
  });
}

struct AsyncWork {
  const TrainSettings& s;
  const TrainInputs& in;
  const Feed& feed;
  Worker& worker;
  Arena arena{};  // of what it keeps
  ModelWeights weights = allocate_weights(in.spec, s.dtype, MemoryClass::weights, arena);
  ModelWeights gradients = allocate_gradients(in.spec, s.dtype, arena);
  std::vector<Tensor> trained{}, fixed{}, gradient{};  // as they travel
  std::vector<ParameterInfo> infos = trained_parameters(in.spec);
  std::optional<RopeTable> rope{};
  Program program = gradient_program(in.spec, s);
  std::vector<InstructionBytes> predicted = simulate(program).replay;

  void begin() {
    for (const Tensor* t : trained_tensors(in.spec, weights)) trained.push_back(*t);
    for (const Tensor* t : trained_tensors(in.spec, gradients)) gradient.push_back(*t);
    for_each_fixed(in.spec, weights, [&](const ParameterInfo&, Tensor& t) { fixed.push_back(t); });
    if (in.spec.rope.kind != RopeKind::none) rope = rope_table(in.spec, s.seq, s.seq);
  }

  AsyncHeader learn(const AsyncHeader& order) {
    for (Tensor* t : tensors(in.spec, gradients)) t->fill_zero();
    const auto first = static_cast<uint64_t>(order.dispatch * s.batch);
    const std::vector<MicroBatch> batches = feed.samples(first, s.batch, s.micro_batch, rope ? &*rope : nullptr);
    int64_t targets = 0;
    for (const MicroBatch& b : batches) targets += b.num_targets();
    const ExecuteResult run = execute(program, {.spec = in.spec,
                                                .weights = weights,
                                                .gradients = &gradients,
                                                .micro_batches = batches,
                                                .loss_scale = targets > 0 ? 1.0 / static_cast<double>(targets) : 0.0,
                                                .compute = {worker.arena, s.multiply},
                                                .step_targets = targets,
                                                .predicted = predicted,
                                                .clock = worker.clock});
    double squares = 0;
    for (const Tensor& g : gradient) squares += squares_of(g);
    const double norm = std::sqrt(squares), clip = s.optimizer.clip;
    const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    for (size_t p = 0; p < gradient.size(); ++p) {
      const double decay = infos[p].decay && targets > 0 ? s.optimizer.option("weight-decay") : 0.0;
      if (factor == 1 && decay == 0) continue;
      if (s.dtype == DType::f64)
        finish_gradient<double>(factor, decay, trained[p].span<double>(), gradient[p].span<double>());
      else
        finish_gradient<float>(factor, decay, trained[p].span<float>(), gradient[p].span<float>());
    }
    return {.call = AsyncCall::gradient,
            .index = order.index,
            .dispatch = order.dispatch,
            .loss_sum = run.loss_sum,
            .gradient_norm = norm,
            .targets = targets,
            .peak_bytes = run.bytes.peak_bytes,
            .state_bytes = arena.peak_total(),
            .mismatches = std::ssize(run.mismatches)};
  }
};

}  // namespace

Program gradient_program(const ModelSpec& spec, const TrainSettings& s) {
  Program p = lower(spec, step_placement(spec, s, s.batch), 0);
  check_valid(p);
  std::erase_if(p.instructions, [](const Instruction& i) { return i.op == Opcode::norm || i.op == Opcode::update; });
  return p;
}

int64_t async_worker_bytes(const ModelSpec& spec, DType dtype) {
  const int64_t wide = size_of(wide_type(dtype));
  int64_t bytes = num_parameters(spec) * size_of(dtype) + num_fixed_numbers(spec) * wide;
  for (const Unit& unit : spec.units) bytes += unit_cost(unit, {.dtype = dtype}).gradient_bytes;
  return bytes;
}

void run_async_worker(const TrainSettings& s, const TrainInputs& in, const Feed& feed, Worker& worker) {
  AsyncWork work{.s = s, .in = in, .feed = feed, .worker = worker};
  work.begin();
  Transport& transport = worker.world->transport();
  constexpr std::array<int, 1> kServer{0};
  AsyncHeader answer;  // posted: the server's until it answers
  for (int64_t gradients = 0;; ++gradients) {
    AsyncHeader order;
    receive_header(transport, kServer, order);
    transport.flush();  // the answer before was received
    if (order.call == AsyncCall::stop) return;
    receive_tensors(transport, 0, work.trained);
    receive_tensors(transport, 0, work.fixed);
    if (s.async->leaves == std::pair(worker.rank() - 1, gradients)) {
      answer = {.call = AsyncCall::leaves};
      post(transport, 0, answer, {});
      return transport.flush();
    }
    answer = work.learn(order);
    post(transport, 0, answer, work.gradient);
  }
}

}  // namespace tern
