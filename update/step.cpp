#include "update/step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/threads.h"
#include "update/block_values.h"
#include "update/squares.h"
#include "update/stored_states.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

Tensor block_of(const Tensor& flat, int64_t block) {
  return flat.reshaped({flat.count()})
      .rows_view(block * kUpdateBlock, std::min(flat.count(), (block + 1) * kUpdateBlock));
}

std::vector<size_t> all_parameters(const UpdatePass& pass) {
  std::vector<size_t> all(pass.state.infos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}
std::vector<size_t> parameters_of(const UpdatePass& pass, int unit) {
  std::vector<size_t> own;
  for (size_t i = 0; i < pass.state.infos.size(); ++i)
    if (pass.state.infos[i].unit == unit) own.push_back(i);
  return own;
}

// Σ over blocks, ascending, of `count` values of each block: of each parameter.
std::vector<UpdateSumValues> sums_over_blocks(const UpdatePass& pass, BlockReaders readers,
                                              std::span<const size_t> parameters, int count, Comm* comm,
                                              const std::function<void(size_t, int64_t, double*)>& fill) {
  std::vector<int64_t> elements;
  for (const size_t p : parameters) elements.push_back(pass.state.forms[p].elements());
  const std::vector<double> values = block_values(pass.state.shares, readers, parameters, elements, count, comm, fill);
  std::vector<UpdateSumValues> sums(parameters.size(), UpdateSumValues{});
  size_t at = 0;
  for (size_t i = 0; i < parameters.size(); ++i)
    for (int64_t left = elements[i]; left > 0; left -= kUpdateBlock)
      for (int k = 0; k < count; ++k) sums[i][static_cast<size_t>(k)] += values[at++];
  return sums;
}

// The rule's own sums, of each parameter.
std::vector<UpdateSumValues> rule_sums(const UpdatePass& pass, const UpdateNorm& norm, BlockReaders readers,
                                       std::span<const size_t> parameters, Comm* comm) {
  const int count = num_sums(pass.config);
  TERN_CHECK(!pass.state.master.empty(), "update: a state without parameters");
  const auto measure = functions_of(pass.config.rule).measure;
  return sums_over_blocks(pass, readers, parameters, count, comm, [&](size_t p, int64_t block, double* values) {
    const UpdateShard own = shard_of(pass, norm, p);
    const int64_t begin = block * kUpdateBlock, end = std::min(own.gradient.count(), begin + kUpdateBlock);
    const UpdateSumValues sums = measure(interval_of(own, begin, end));
    std::copy_n(sums.begin(), count, values);
  });
}

bool sums_over(const UpdatePass& pass, UpdateSums::Over over) {
  return num_sums(pass.config) > 0 && row_of(pass.config.rule).sums.over == over;
}

// Σ x² of finite numbers may overflow f32 products but not doubles: not finite means a NaN or an infinity is in there.
[[noreturn]] void refuse(const std::vector<ParameterInfo>& infos, const std::vector<double>& squares, int64_t step) {
  size_t first = 0, count = 0;
  for (size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) first = i, ++count;
  throw Error(
      ErrorKind::diverged,
      "step {}: the gradient of '{}' is not finite ({} of {} tensors are not); the update was refused and the "
      "weights are those of step {}. A lower --learning-rate, a longer --warmup-steps or --clip usually help; that is "
      "another run, so give it another --output or say --resume never",
      step, infos[first].name, count, infos.size(), step - 1);
}

}  // namespace

UpdatePass make_update_pass(const ModelSpec& spec, OptimizerState& state, const UpdateConfig& config,
                            ModelWeights& weights, ModelWeights& gradients) {
  UpdatePass pass{.state = state, .config = config, .weights = {}, .gradients = {}};
  for (const Tensor* t : trained_tensors(spec, weights)) pass.weights.push_back(*t);
  for (const Tensor* t : trained_tensors(spec, gradients)) pass.gradients.push_back(*t);
  TERN_CHECK(pass.weights.size() == state.infos.size(), "update: {} weights, a state of {}", pass.weights.size(),
             state.infos.size());
  return pass;
}

DType weight_type(const UpdatePass& pass) {
  if (pass.weight_dtype) return *pass.weight_dtype;
  const auto own = std::ranges::find_if(pass.weights, [](const Tensor& t) { return !t.empty(); });
  TERN_CHECK(own != pass.weights.end(), "update: a rank without weights");
  return own->dtype();
}

void add_gradient_parts(UpdatePass& pass, DType wide, Arena& arena) {
  const OptimizerState& state = pass.state;
  for (size_t p = 0; p < pass.gradients.size(); ++p) {
    const int64_t mine = state.shares.mine(p, state.forms[p].elements()).size();
    if (pass.gradients[p].empty() && mine > 0) pass.gradients[p] = arena.zeros(wide, {mine}, MemoryClass::gradients);
  }
}

UpdateShard shard_of(const UpdatePass& pass, const UpdateNorm& norm, size_t parameter) {
  const OptimizerState& state = pass.state;
  const double rate = pass.highest_rate, all = pass.squared_rates;
  const auto own = [&](const Tensor& t) {
    return own_part(state.shares, parameter, state.forms[parameter].elements(), t);
  };
  const double factor = pass.rate_factors.empty() ? 1 : pass.rate_factors[parameter];
  UpdateShard shard{.config = pass.config,
                    .form = state.forms[parameter],
                    .decays = state.infos[parameter].decay,
                    .learning_rate = factor * pass.learning_rate,
                    .step = pass.step,
                    .average_weight = all > 0 ? rate * rate / all : 0,
                    .norm = norm,
                    .gradient = own(pass.gradients[parameter]),
                    .master = state.master[parameter]};
  const Tensor& weight = pass.weights[parameter];
  if (has_own_masters(pass.config, weight.dtype())) shard.compute = own(weight);
  for (const std::vector<Tensor>& slot : state.slots) shard.slots.push_back(slot[parameter]);
  return shard;
}

void begin_step(UpdatePass& pass, int64_t number, const std::function<double(int64_t)>& rate_of) {
  if (number != pass.step + 1) pass.step = 0, pass.highest_rate = pass.squared_rates = 0;
  while (pass.step < number) {
    pass.learning_rate = rate_of(++pass.step);
    pass.highest_rate = std::max(pass.highest_rate, pass.learning_rate);
    pass.squared_rates += pass.highest_rate * pass.highest_rate;
  }
}

// Of this rank's parts and of all others', in rank order.
static double sum_of_parts(const UpdatePass& pass, Comm* world, std::vector<double>& squares) {
  std::vector<double> sums(static_cast<size_t>(world->size()));
  double& own = sums[static_cast<size_t>(world->rank())];
  for (size_t p = 0; p < pass.gradients.size(); ++p) {
    const int64_t elements = pass.state.forms[p].elements();
    const TensorNorm::Part& part = pass.tensor->parts[p];
    const Interval mine = pass.state.shares.mine(p, elements);
    double& sum = squares.emplace_back(0);
    if (mine.size() == 0) continue;
    const Tensor flat = own_part(pass.state.shares, p, elements, pass.gradients[p]).reshaped({mine.size()});
    const int64_t alike = std::clamp(part.from - mine.begin, int64_t{0}, mine.size());
    sum = squares_of(flat.rows_view(0, alike)) +
          squares_of(flat.rows_view(alike, mine.size())) / static_cast<double>(part.holders);
    if (part.counts) own += sum;
  }
  const Tensor exchanged = Tensor::borrow(DType::f64, {world->size()}, sums.data());
  RankParts by_rank(sums.size());
  for (int r = 0; r < world->size(); ++r) by_rank[static_cast<size_t>(r)].push_back(exchanged.rows_view(r, r + 1));
  world->all_gather(by_rank);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

static double sum_of_squares(const UpdatePass& pass, const std::vector<size_t>& all, Comm* world,
                             std::vector<double>& squares) {
  double total = 0;
  const auto measure = [&](size_t p, int64_t block, double* value) {
    const int64_t elements = pass.state.forms[p].elements();
    *value = squares_of(block_of(own_part(pass.state.shares, p, elements, pass.gradients[p]), block));
  };
  for (const UpdateSumValues& of : sums_over_blocks(pass, BlockReaders::world, all, 1, world, measure))
    total += squares.emplace_back(of[0]);
  return total;
}

static UpdateNorm norm_of_total(const UpdatePass& pass, double total) {
  UpdateNorm norm{.gradient_norm = std::sqrt(total)};
  if (pass.config.clip > 0) norm.coefficient = std::min(1.0, pass.config.clip / (norm.gradient_norm + 1e-6));
  return norm;
}

UpdateNorm gradient_norm(const UpdatePass& pass, Comm* world) {
  const std::vector<size_t> all = all_parameters(pass);
  std::vector<double> squares;
  double total = 0;
  if (pass.tensor)
    total = sum_of_parts(pass, world, squares);
  else
    total = sum_of_squares(pass, all, world, squares);
  if (!std::isfinite(total)) refuse(pass.state.infos, squares, pass.step);
  UpdateNorm norm = norm_of_total(pass, total);
  if (!sums_over(pass, UpdateSums::Over::model)) return norm;
  for (const UpdateSumValues& own : rule_sums(pass, norm, BlockReaders::world, all, world))
    for (size_t k = 0; k < own.size(); ++k) norm.sums[k] += own[k];
  return norm;
}

double gradient_squares(const UpdatePass& pass, size_t parameter) {
  const Tensor& whole = pass.gradients[parameter];
  double sum = 0;
  for (int64_t block = 0; block * kUpdateBlock < whole.count(); ++block) sum += squares_of(block_of(whole, block));
  return sum;
}

UpdateNorm norm_of_squares(const UpdatePass& pass, const std::vector<double>& squares) {
  double total = 0;
  for (const double square : squares) total += square;
  if (!std::isfinite(total)) refuse(pass.state.infos, squares, pass.step);
  return norm_of_total(pass, total);
}

void require_finite_square(const UpdatePass& pass, size_t parameter, double square) {
  if (std::isfinite(square)) return;
  throw Error(ErrorKind::diverged,
              "step {}: the gradient of '{}' is not finite; with --update-in-backward layers behind it were updated "
              "already, so "
              "this step's weights are of no use: the last checkpoint stands. A lower --learning-rate or a longer "
              "--warmup-steps usually help; that is another run, so give it another --output or say --resume never",
              pass.step, pass.state.infos[parameter].name);
}

void update_unit(const UpdatePass& pass, const UpdateNorm& norm, int unit, Arena& arena, Comm* replicas) {
  update_parameters(pass, norm, parameters_of(pass, unit), arena, replicas);
}

void update_parameters(const UpdatePass& pass, const UpdateNorm& norm, std::span<const size_t> parameters, Arena& arena,
                       Comm* replicas) {
  if (pass.stored) {
    for (const size_t p : parameters) update_stored(pass, norm, p, arena);
    return;
  }
  std::vector<UpdateSumValues> sums(parameters.size(), UpdateSumValues{});
  if (sums_over(pass, UpdateSums::Over::parameter))
    sums = rule_sums(pass, norm, BlockReaders::replicas, parameters, replicas);
  for (size_t i = 0; i < parameters.size(); ++i) {
    UpdateShard shard = shard_of(pass, norm, parameters[i]);
    const Tensor& whole = pass.gradients[parameters[i]];
    if (!shard.master.empty()) {
      if (const int64_t elements = temporary_elements(pass.config, shard.form); elements > 0)
        shard.temporary = arena.allocate(shard.master.dtype(), {elements}, MemoryClass::workspace);
      shard.sums = sums[i];
      functions_of(pass.config.rule).step(shard);
    }
    if (whole.count() > shard.gradient.count() || shard.master.empty()) whole.fill_zero();  // what others keep
  }
}

std::vector<int64_t> norm_value_bytes(const UpdatePass& pass, int ranks) {
  const int sums = sums_over(pass, UpdateSums::Over::model) ? num_sums(pass.config) : 0;
  return block_value_bytes(pass.state.shares, BlockReaders::world, all_parameters(pass), 1 + sums, ranks);
}

std::vector<int64_t> update_value_bytes(const UpdatePass& pass, std::span<const size_t> parameters, int replicas) {
  const int sums = sums_over(pass, UpdateSums::Over::parameter) ? num_sums(pass.config) : 0;
  return block_value_bytes(pass.state.shares, BlockReaders::replicas, parameters, sums, replicas);
}

int64_t update_thread_bytes(const ModelSpec& spec, const UpdateConfig& config, DType weights) {
  ThreadBytes all;
  const auto asked = functions_of(config.rule).thread_bytes;
  if (asked && weights != DType::f64)
    for (const ParameterInfo& info : trained_parameters(spec)) all = most(all, asked(config, form_of(spec, info)));
  return all.total(num_compute_threads());
}

void put_weights_at(const UpdatePass& pass, WeightPoint point) {
  if (!row_of(pass.config.rule).computes_elsewhere) return;
  for (size_t i = 0; i < pass.state.infos.size(); ++i) {
    const UpdateShard shard = shard_of(pass, {}, i);
    if (shard.master.empty()) continue;
    if (point == WeightPoint::computing)
      functions_of(pass.config.rule).place(shard);
    else
      round_master(shard.master, shard.compute);
  }
}

}  // namespace tern
