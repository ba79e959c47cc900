#pragma once
// Update rules (optimizers) as values: what each keeps, reads and costs. Plans, options, memory forecasts, checkpoints and
// training read this one table; the rows are in spec/update_rules.def, the arithmetic in update/.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "spec/parameter_form.h"

namespace tern {

#define TERN_UPDATE_RULE(name, ...) name,
enum class UpdateRule : uint8_t {
#include "spec/update_rules.def"
};
#undef TERN_UPDATE_RULE

#define TERN_UPDATE_RULE(name, ...) UpdateRule::name,
inline constexpr std::array kUpdateRules{
#include "spec/update_rules.def"
};
#undef TERN_UPDATE_RULE

/// A number that a rule reads: --NAME of `tern train`, from 0 to `max`.
struct RuleOption {
  std::string_view name, fallback;  // the default as one would type it
  double max = 1;
  bool below_max = false;  // `max` itself is no value
  std::string_view help;
};

/// Elements as many as the parameter has.
inline int64_t each_element(const ParameterForm& p) { return p.elements(); }

/// What a rule keeps of a parameter from step to step, zero at first.
struct StateSlot {
  std::string_view name;                                     // its tensor in a checkpoint is NAME.PARAMETER
  int64_t (*elements)(const ParameterForm&) = each_element;  // 0: nothing is kept of this parameter
  std::string_view unless_zero = {};                         // an option: where it is 0 there is no such slot
  std::optional<DType> type = {};                            // not given: f32, or f64 of an f64 model
};

/// What one call of a rule's step takes: an interval of a parameter's flat elements (whole blocks of kUpdateBlock, the
/// last one may be shorter; same bits however a parameter is cut), or the whole parameter.
enum class UpdateGrain : uint8_t { interval, parameter };
inline constexpr int64_t kUpdateBlock = int64_t{1} << 16;  // elements: the blocks of sum_of_squares

struct UpdateRuleRow {
  std::vector<StateSlot> slots;
  std::vector<RuleOption> options;
  int64_t (*flops)(const ParameterForm&);  // of one step of one parameter
  UpdateGrain grain = UpdateGrain::interval;
};

std::string_view name_of(UpdateRule);
/// Errors: usage, naming what is known.
UpdateRule update_rule_from_name(std::string_view);
const UpdateRuleRow& row_of(UpdateRule);

/// A rule with the values of its options.
struct UpdateConfig {
  UpdateRule rule;
  std::vector<double> options;  // in the order of the row's
  double clip = 1.0;            // of the global norm of all gradients, before the rule sees them; 0: none
  /// Errors: TERN_CHECK, if the rule has no such option.
  double option(std::string_view name) const;
  void set_option(std::string_view name, double value);
};
/// The defaults, but for `changed`.
UpdateConfig update_config(UpdateRule, std::initializer_list<std::pair<std::string_view, double>> changed = {});

/// Elements of a slot of a parameter: 0 where nothing is kept.
int64_t slot_elements(const UpdateConfig&, const StateSlot&, const ParameterForm&);
/// Bytes of optimizer state: the slots, and master weights where `dtype`, the weights', is narrower than f32.
int64_t state_bytes(const UpdateConfig&, DType dtype, const ParameterForm&);
int64_t state_bytes(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

/// One step of the parameters. Bytes: gradients are read and cleared; masters and slots read and written; weights
/// narrower than the masters written.
struct UpdateCost {
  int64_t flops = 0, bytes_moved = 0;
};
UpdateCost update_cost(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

}  // namespace tern
