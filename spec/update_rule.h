#pragma once
// Update rules (optimizers) as values: the state, the options and the costs of each. Plans, options, memory forecasts,
// checkpoints and training read this one table. Its rows are in spec/update_rules.def, the arithmetic is in update/.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
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

/// An option of a rule: a number from 0 to `max`, which `tern train` takes as --NAME. If several rules have an option
/// of the same name, it differs only in its default.
struct RuleOption {
  std::string_view name, fallback;  // fallback: the default, as one would type it
  double max = 1;
  bool below_max = false;  // `max` itself is not allowed
  bool counts = false;     // must be a whole number, at least 1
  std::string_view help;
};
/// The rules that read the option, with their defaults: "0.95 for adamw, muon; 0.99 for lion".
std::string defaults_of(std::string_view option);

struct UpdateConfig;
/// Computes a number of one parameter (elements or FLOPs) in closed form from its kind, its size and the rule's options.
using ParameterNumber = int64_t (*)(const UpdateConfig&, const ParameterForm&);
/// The number of the parameter's elements.
inline int64_t each_element(const UpdateConfig&, const ParameterForm& p) { return p.elements(); }

/// One tensor of state that a rule keeps for a parameter from step to step. It starts at zero.
struct StateSlot {
  std::string_view name;                    // the checkpoint's tensor is called NAME.PARAMETER
  ParameterNumber elements = each_element;  // 0: no state of this parameter
  std::string_view unless_zero = {};        // an option; if its value is 0, the slot does not exist
  std::optional<DType> type = {};           // not given: f32 (f64 for a model in f64)
};

/// What one call of a rule's step updates. interval: some of a parameter's flat elements, in whole blocks of kUpdateBlock (the
/// parameter's last block may be shorter); the cuts do not change the bits. parameter: the whole parameter, which one rank then owns.
enum class UpdateGrain : uint8_t { interval, parameter };
inline constexpr int64_t kUpdateBlock = int64_t{1} << 16;  // elements; sum_of_squares takes one such block at a time
inline UpdateGrain by_interval(const ParameterForm&) { return UpdateGrain::interval; }
inline UpdateGrain by_parameter(const ParameterForm&) { return UpdateGrain::parameter; }

/// Sums over elements that a step needs before it begins. Each block of kUpdateBlock elements is summed in double, and the blocks'
/// sums are added in the order of blocks. So ranks that share a parameter exchange the blocks' sums and get the same bits as one rank.
struct UpdateSums {
  enum class Over : uint8_t { parameter, model };
  int count = 0;  // at most kMaxUpdateSums
  Over over = Over::parameter;
  std::string_view unless_zero = {};  // an option; if its value is 0, no sums are taken
};
inline constexpr int kMaxUpdateSums = 2;

struct UpdateRuleRow {
  std::vector<StateSlot> slots;
  std::vector<RuleOption> options;
  ParameterNumber flops;  // upper bound for one step of one parameter
  UpdateGrain (*grain)(const ParameterForm&) = by_interval;
  UpdateSums sums = {};
  ParameterNumber temporary =
      nullptr;                    // elements (f32, or f64 of an f64 model) of scratch that a step needs while it runs
  std::string_view clip = "1.0";  // default of --clip; empty: no clipping, as clipping would not change a step
  bool computes_elsewhere =
      false;  // gradients are computed at a point other than the masters; weights and masters are then separate tensors
};

std::string_view name_of(UpdateRule);
/// Errors: usage, naming the known rules.
UpdateRule update_rule_from_name(std::string_view);
const UpdateRuleRow& row_of(UpdateRule);

/// A rule with the values of its options.
struct UpdateConfig {
  UpdateRule rule;
  std::vector<double> options;  // in the order of UpdateRuleRow::options
  double clip = 1.0;            // limit of the norm of all gradients: larger ones are scaled down to it; 0: none
  /// Errors: TERN_CHECK, if the rule has no such option.
  double option(std::string_view name) const;
  void set_option(std::string_view name, double value);
};
/// The rule's defaults, except for the options in `changed`.
UpdateConfig update_config(UpdateRule, std::initializer_list<std::pair<std::string_view, double>> changed = {});

/// Elements of the slot for a parameter; 0: the rule keeps nothing of it.
int64_t slot_elements(const UpdateConfig&, const StateSlot&, const ParameterForm&);
/// The interval [first, second) of a slot that belongs to the elements [begin, end) of a parameter, which are whole blocks.
std::pair<int64_t, int64_t> slot_interval(const UpdateConfig&, const StateSlot&, const ParameterForm&, int64_t begin,
                                          int64_t end);
/// How many sums a step takes with these options.
int num_sums(const UpdateConfig&);
/// Whether weights and masters are separate tensors: if the weights are narrower than f32, or if the rule computes_elsewhere.
bool has_own_masters(const UpdateConfig&, DType dtype);
/// For rules that step inside a projection (update/galore.h): how many directions of a matrix's shorter side the projection
/// keeps, and the form of the projected gradient. For parameters that are not matrices: 0, and the parameter's own form.
int64_t projection_rank(const UpdateConfig&, const ParameterForm&);
ParameterForm projected_form(int64_t rank, const ParameterForm&);
/// Elements of scratch that a step of the parameter needs while it runs.
int64_t temporary_elements(const UpdateConfig&, const ParameterForm&);
/// The most bytes of temporaries that the step of any one parameter needs.
int64_t update_workspace(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);
/// Bytes of optimizer state: the slots, and the masters if has_own_masters. `dtype`: of the weights.
int64_t state_bytes(const UpdateConfig&, DType dtype, const ParameterForm&);
int64_t state_bytes(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

/// The cost of one step of the parameters. Bytes: gradients are read and cleared; masters and slots are read and written;
/// weights that are not the masters are written. If the rule takes sums, gradients and masters are read once more.
struct UpdateCost {
  int64_t flops = 0, bytes_moved = 0;
};
UpdateCost update_cost(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

}  // namespace tern
