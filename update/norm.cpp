#include "update/norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "model/visit_weights.h"
#include "update/block_sums_impl.h"
#include "update/block_values.h"
#include "update/squares.h"

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

// Σ x² of finite numbers may overflow f32 products but not doubles: not finite means a NaN or an infinity is in there.
[[noreturn]] void refuse(const std::vector<ParameterInfo>& infos, const std::vector<double>& squares, int64_t step) {
  size_t first = 0, count = 0;
  for (size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) first = i, ++count;
  const std::string fact = count == 0 ? std::string("another rank's gradients are not finite, this one's are")
                                      : fmt::format("the gradient of '{}' is not finite ({} of {} tensors are not)",
                                                    infos[first].name, count, infos.size());
  throw NotFiniteGradient(
      fmt::format("step {}: {}; the update was refused and the weights are those of step {}", step, fact, step - 1),
      "A lower --learning-rate, a longer --warmup-steps or --clip usually help; that is another run, so give it "
      "another --output or say --resume never");
}

}  // namespace

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

std::vector<int64_t> norm_value_bytes(const UpdatePass& pass, int ranks) {
  const int sums = sums_over(pass, UpdateSums::Over::model) ? num_sums(pass.config) : 0;
  return block_value_bytes(pass.state.shares, BlockReaders::world, all_parameters(pass), 1 + sums, ranks);
}

}  // namespace tern
