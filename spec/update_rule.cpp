#include "spec/update_rule.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/wide_type.h"

namespace tern {
namespace {

RuleOption weight_decay(std::string_view fallback) {
  return {.name = "weight-decay",
          .fallback = fallback,
          .max = 1e6,
          .help = "decay of matrices and tables; norms and biases are left out"};
}
RuleOption momentum(std::string_view fallback) {
  return {.name = "momentum",
          .fallback = fallback,
          .below_max = true,
          .help = "what is kept of the velocity, from step to step"};
}
RuleOption beta1(std::string_view fallback) {
  return {.name = "beta1", .fallback = fallback, .below_max = true, .help = "decay of the first moment"};
}
RuleOption beta2(std::string_view fallback) {
  return {.name = "beta2", .fallback = fallback, .below_max = true, .help = "decay of the second moment"};
}
RuleOption epsilon(std::string_view fallback) {
  return {.name = "epsilon", .fallback = fallback, .help = "added to what the rule divides by"};
}
RuleOption trust(std::string_view fallback) {
  return {.name = "trust", .fallback = fallback, .max = 1e6, .help = "step of a matrix as a share of its own length"};
}

RuleOption basis_every(std::string_view fallback) {
  return {.name = "basis-every",
          .fallback = fallback,
          .max = 1e9,
          .counts = true,
          .help = "steps from one basis of a matrix's gradients to the next"};
}
RuleOption basis_limit(std::string_view fallback) {
  return {.name = "basis-limit",
          .fallback = fallback,
          .max = 1e9,
          .counts = true,
          .help = "sides of a matrix up to this length have a basis"};
}

RuleOption projection_rank(std::string_view fallback) {
  return {.name = "projection-rank",
          .fallback = fallback,
          .max = 1e9,
          .counts = true,
          .help = "directions of a matrix's shorter side in which the rule steps"};
}
RuleOption projection_scale(std::string_view fallback) {
  return {.name = "projection-scale",
          .fallback = fallback,
          .max = 1e6,
          .help = "what a step there is multiplied by, back on the whole matrix"};
}

// Sizes by kind, as rows of the table name them.
int64_t elements_of_matrix(const UpdateConfig&, const ParameterForm& p) {
  return p.kind == ParameterKind::matrix ? p.elements() : 0;
}
int64_t elements_unless_matrix(const UpdateConfig& c, const ParameterForm& p) {
  return p.elements() - elements_of_matrix(c, p);
}
int64_t elements_of_vector(const UpdateConfig&, const ParameterForm& p) {
  return p.kind == ParameterKind::vector ? p.elements() : 0;
}
int64_t rows_unless_vector(const UpdateConfig&, const ParameterForm& p) {
  return p.kind == ParameterKind::vector ? 0 : p.rows;
}
int64_t columns_unless_vector(const UpdateConfig&, const ParameterForm& p) {
  return p.kind == ParameterKind::vector ? 0 : p.columns;
}
int64_t code_blocks_of_matrix(const UpdateConfig& c, const ParameterForm& p) {
  return (elements_of_matrix(c, p) + 2047) / 2048;
}

UpdateGrain whole_matrices(const ParameterForm& p) {
  return p.kind == ParameterKind::matrix ? UpdateGrain::parameter : UpdateGrain::interval;
}

// kernels/cpu/newton_schulz.h: five steps of two products with the long side and one of short ones; two of the results are symmetric
// and computed by half.
int64_t newton_schulz_flops(const UpdateConfig&, const ParameterForm& p) {
  const int64_t side = std::min(p.rows, p.columns);
  return 5 * (3 * p.elements() * side + side * side * side);
}
int64_t newton_schulz_temporary(const UpdateConfig&, const ParameterForm& p) {
  const int64_t side = std::min(p.rows, p.columns);
  return p.kind == ParameterKind::matrix ? p.elements() + 2 * side * side : 0;
}

// update/soap.cpp: the sides of a matrix that have a basis; 0: none.
int64_t left_side(const UpdateConfig& c, const ParameterForm& p) {
  return p.kind == ParameterKind::matrix && static_cast<double>(p.rows) <= c.option("basis-limit") ? p.rows : 0;
}
int64_t right_side(const UpdateConfig& c, const ParameterForm& p) {
  return p.kind == ParameterKind::matrix && static_cast<double>(p.columns) <= c.option("basis-limit") ? p.columns : 0;
}
int64_t square_of_rows(const UpdateConfig& c, const ParameterForm& p) { return left_side(c, p) * left_side(c, p); }
int64_t square_of_columns(const UpdateConfig& c, const ParameterForm& p) { return right_side(c, p) * right_side(c, p); }
// kernels/lapack/orthonormal_bases.h: eigen_work_elements with the values, basis_work_elements.
int64_t eigen_temporary(int64_t n) { return 2 * n * n + 12 * n + 4; }
int64_t basis_temporary(int64_t n, int64_t given) { return given + 32 * n; }
// Four turns by each side and two squares; a new basis is a product and about 8/3·n³ of QR.
int64_t soap_flops(const UpdateConfig& c, const ParameterForm& p) {
  int64_t flops = 20 * p.elements();
  for (const int64_t n : {left_side(c, p), right_side(c, p)})
    flops +=
        8 * p.elements() * n + static_cast<int64_t>(5.0 * static_cast<double>(n * n * n) / c.option("basis-every"));
  return flops;
}
// Two matrices and a square while it turns; the first bases; the next ones.
int64_t soap_temporary(const UpdateConfig& c, const ParameterForm& p) {
  if (p.kind != ParameterKind::matrix) return 0;
  const int64_t left = left_side(c, p), right = right_side(c, p), longest = std::max(left, right);
  const int64_t shortest = left > 0 && right > 0 ? std::min(left, right) : longest;
  return std::max({2 * p.elements() + longest * longest, eigen_temporary(shortest), basis_temporary(longest, longest)});
}

// update/galore.h.
int64_t basis_elements(const UpdateConfig& c, const ParameterForm& p) {
  return projection_rank(c, p) * std::min(p.rows, p.columns);
}
ParameterForm projected(const UpdateConfig& c, const ParameterForm& p) {
  return projected_form(projection_rank(c, p), p);
}
template <int64_t (*kNumber)(const UpdateConfig&, const ParameterForm&)>
int64_t of_projected(const UpdateConfig& c, const ParameterForm& p) {
  return kNumber(c, projected(c, p));
}
// The square and its eigenvectors, or a transposed gradient; the projected gradient, its step and a transposed basis.
int64_t projection_temporary(const UpdateConfig& c, const ParameterForm& p) {
  if (p.kind != ParameterKind::matrix) return 0;
  const int64_t side = std::min(p.rows, p.columns), across = p.rows < p.columns ? p.elements() : 0;
  return std::max(side * side + std::max(across, eigen_temporary(side)),
                  2 * projected(c, p).elements() + basis_elements(c, p));
}
// There and back; a new basis is a square and about 9 n³ of eigenvectors.
int64_t projection_flops(const UpdateConfig& c, const ParameterForm& p, int64_t of_rule) {
  if (p.kind != ParameterKind::matrix) return of_rule * p.elements();
  const auto side = static_cast<double>(std::min(p.rows, p.columns));
  const double basis = 2 * side * static_cast<double>(p.elements()) + 9 * side * side * side;
  return (4 * projection_rank(c, p) + 4) * p.elements() + of_rule * projected(c, p).elements() +
         static_cast<int64_t>(basis / c.option("basis-every"));
}

bool is_off(const UpdateConfig& c, std::string_view option) { return !option.empty() && c.option(option) == 0; }

double number_from(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TERN_CHECK(error == std::errc() && end == text.data() + text.size(), "update rule: the default '{}'", text);
  return value;
}

size_t place_of(const UpdateRuleRow& row, UpdateRule rule, std::string_view name) {
  const auto it = std::ranges::find(row.options, name, &RuleOption::name);
  TERN_CHECK(it != row.options.end(), "update rule {}: no option '{}'", name_of(rule), name);
  return static_cast<size_t>(it - row.options.begin());
}

int64_t slot_bytes(const UpdateConfig& c, DType dtype, const ParameterForm& form) {
  int64_t bytes = 0;
  for (const StateSlot& slot : row_of(c.rule).slots)
    bytes += slot_elements(c, slot, form) * size_of(slot.type.value_or(wide_type(dtype)));
  return bytes;
}

}  // namespace

std::string_view name_of(UpdateRule rule) {
  static const auto names = [] {
    std::array<std::string, kUpdateRules.size()> list{
#define TERN_UPDATE_RULE(name, ...) #name,
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE
    };
    for (std::string& name : list) std::ranges::replace(name, '_', '-');
    return list;
  }();
  return names[static_cast<size_t>(rule)];
}

std::string defaults_of(std::string_view option) {
  std::vector<std::pair<std::string_view, std::string>> groups;  // a default, and who has it
  for (const UpdateRule rule : kUpdateRules)
    for (const RuleOption& o : row_of(rule).options) {
      if (o.name != option) continue;
      auto group = std::ranges::find(groups, o.fallback, &decltype(groups)::value_type::first);
      if (group == groups.end()) group = groups.insert(group, {o.fallback, ""});
      group->second += (group->second.empty() ? "" : ", ") + std::string(name_of(rule));
    }
  std::string text;
  for (const auto& [value, rules] : groups) text += (text.empty() ? "" : "; ") + std::string(value) + " for " + rules;
  return text;
}

UpdateRule update_rule_from_name(std::string_view name) {
  std::string known;
  for (const UpdateRule rule : kUpdateRules) {
    if (name == name_of(rule)) return rule;
    known += (known.empty() ? "" : ", ") + std::string(name_of(rule));
  }
  throw Error(ErrorKind::usage, "--optimizer: '{}' is none of {}", name, known);
}

const UpdateRuleRow& row_of(UpdateRule rule) {
  static const std::array<UpdateRuleRow, kUpdateRules.size()> rows{
#define TERN_UPDATE_RULE(name, ...) UpdateRuleRow{__VA_ARGS__},
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE
  };
  return rows[static_cast<size_t>(rule)];
}

double UpdateConfig::option(std::string_view name) const { return options[place_of(row_of(rule), rule, name)]; }

void UpdateConfig::set_option(std::string_view name, double value) {
  options[place_of(row_of(rule), rule, name)] = value;
}

UpdateConfig update_config(UpdateRule rule, std::initializer_list<std::pair<std::string_view, double>> changed) {
  const std::string_view clip = row_of(rule).clip;
  UpdateConfig c{.rule = rule, .options = {}, .clip = clip.empty() ? 0 : number_from(clip)};
  for (const RuleOption& option : row_of(rule).options) c.options.push_back(number_from(option.fallback));
  for (const auto& [name, value] : changed) c.set_option(name, value);
  return c;
}

int64_t slot_elements(const UpdateConfig& c, const StateSlot& slot, const ParameterForm& form) {
  return is_off(c, slot.unless_zero) ? 0 : slot.elements(c, form);
}

std::pair<int64_t, int64_t> slot_interval(const UpdateConfig& c, const StateSlot& slot, const ParameterForm& form,
                                          int64_t begin, int64_t end) {
  TERN_CHECK(begin % kUpdateBlock == 0 && begin <= end && end <= form.elements(), "slot_interval: [{}, {}) of {}",
             begin, end, form.elements());
  return {slot_elements(c, slot, {form.kind, 1, begin}), slot_elements(c, slot, {form.kind, 1, end})};
}

int num_sums(const UpdateConfig& c) {
  const UpdateSums& sums = row_of(c.rule).sums;
  return is_off(c, sums.unless_zero) ? 0 : sums.count;
}

bool has_own_masters(const UpdateConfig& c, DType dtype) {
  return size_of(dtype) < size_of(wide_type(dtype)) || row_of(c.rule).computes_elsewhere;
}

int64_t projection_rank(const UpdateConfig& c, const ParameterForm& form) {
  if (form.kind != ParameterKind::matrix) return 0;
  return std::min({form.rows, form.columns, static_cast<int64_t>(c.option("projection-rank"))});
}

ParameterForm projected_form(int64_t rank, const ParameterForm& form) {
  if (form.kind != ParameterKind::matrix) return form;
  return form.rows >= form.columns ? ParameterForm{form.kind, form.rows, rank}
                                   : ParameterForm{form.kind, rank, form.columns};
}

int64_t temporary_elements(const UpdateConfig& c, const ParameterForm& form) {
  const ParameterNumber temporary = row_of(c.rule).temporary;
  return temporary ? temporary(c, form) : 0;
}

int64_t update_workspace(const UpdateConfig& c, DType dtype, const std::vector<CountedForm>& forms) {
  int64_t most = 0;
  for (const CountedForm& f : forms) most = std::max(most, temporary_elements(c, f.form) * size_of(wide_type(dtype)));
  return most;
}

int64_t state_bytes(const UpdateConfig& c, DType dtype, const ParameterForm& form) {
  return slot_bytes(c, dtype, form) + (has_own_masters(c, dtype) ? form.elements() * size_of(wide_type(dtype)) : 0);
}

int64_t state_bytes(const UpdateConfig& c, DType dtype, const std::vector<CountedForm>& forms) {
  int64_t bytes = 0;
  for (const CountedForm& f : forms) bytes += f.count * state_bytes(c, dtype, f.form);
  return bytes;
}

UpdateCost update_cost(const UpdateConfig& c, DType dtype, const std::vector<CountedForm>& forms) {
  UpdateCost cost;
  const int64_t wide = size_of(wide_type(dtype)), rounded = has_own_masters(c, dtype) ? size_of(dtype) : 0;
  const int64_t passes = num_sums(c) > 0 ? 6 : 4;
  for (const CountedForm& f : forms) {
    cost.flops += f.count * row_of(c.rule).flops(c, f.form);
    cost.bytes_moved += f.count * (f.form.elements() * (passes * wide + rounded) + 2 * slot_bytes(c, dtype, f.form));
  }
  return cost;
}

}  // namespace tern
