#include "spec/update_rule.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"

namespace tern {
namespace {

constexpr RuleOption kWeightDecay{.name = "weight-decay",
                                  .fallback = "0.1",
                                  .max = 1e6,
                                  .help = "decoupled decay of matrices; norms and biases are left out"};

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

int64_t wide_bytes(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

int64_t slot_bytes(const UpdateConfig& c, DType dtype, const ParameterForm& form) {
  int64_t bytes = 0;
  for (const StateSlot& slot : row_of(c.rule).slots)
    bytes += slot_elements(c, slot, form) * (slot.type ? size_of(*slot.type) : wide_bytes(dtype));
  return bytes;
}

}  // namespace

std::string_view name_of(UpdateRule rule) {
  constexpr std::string_view names[] = {
#define TERN_UPDATE_RULE(name, ...) #name,
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE
  };
  return names[static_cast<size_t>(rule)];
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
  UpdateConfig c{.rule = rule, .options = {}};
  for (const RuleOption& option : row_of(rule).options) c.options.push_back(number_from(option.fallback));
  for (const auto& [name, value] : changed) c.set_option(name, value);
  return c;
}

int64_t slot_elements(const UpdateConfig& c, const StateSlot& slot, const ParameterForm& form) {
  const bool kept = slot.unless_zero.empty() || c.option(slot.unless_zero) != 0;
  return kept ? slot.elements(form) : 0;
}

int64_t state_bytes(const UpdateConfig& c, DType dtype, const ParameterForm& form) {
  const int64_t wide = wide_bytes(dtype);
  return slot_bytes(c, dtype, form) + (size_of(dtype) < wide ? form.elements() * wide : 0);
}

int64_t state_bytes(const UpdateConfig& c, DType dtype, const std::vector<CountedForm>& forms) {
  int64_t bytes = 0;
  for (const CountedForm& f : forms) bytes += f.count * state_bytes(c, dtype, f.form);
  return bytes;
}

UpdateCost update_cost(const UpdateConfig& c, DType dtype, const std::vector<CountedForm>& forms) {
  UpdateCost cost;
  const int64_t wide = wide_bytes(dtype), rounded = size_of(dtype) < wide ? size_of(dtype) : 0;
  for (const CountedForm& f : forms) {
    cost.flops += f.count * row_of(c.rule).flops(f.form);
    cost.bytes_moved += f.count * (f.form.elements() * (4 * wide + rounded) + 2 * slot_bytes(c, dtype, f.form));
  }
  return cost;
}

}  // namespace tern
