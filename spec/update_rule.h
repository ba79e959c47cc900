#pragma once
// Update rules (optimizers) as values: what each keeps, reads and costs. Plans, options, memory forecasts, checkpoints and
// training read this one table; the rows are in spec/update_rules.def, the arithmetic in update/.

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

/// A number that a rule reads: --NAME of `tern train`, from 0 to `max`. Options of the same name in several rules differ in
/// their default alone.
struct RuleOption {
  std::string_view name, fallback;  // the default as one would type it
  double max = 1;
  bool below_max = false;  // `max` itself is no value
  bool counts = false;     // a whole number from 1 on
  std::string_view help;
};
/// The rules that read the option, with their defaults: "0.95 for adamw, muon; 0.99 for lion".
std::string defaults_of(std::string_view option);

/// A number that a rule has for a parameter (elements, FLOPs), in closed form from its kind, its size and the rule's options.
struct UpdateConfig;
using ParameterNumber = int64_t (*)(const UpdateConfig&, const ParameterForm&);
/// The number of the parameter's elements.
inline int64_t each_element(const UpdateConfig&, const ParameterForm& p) { return p.elements(); }

/// What a rule keeps of a parameter from step to step, zero at first.
struct StateSlot {
  std::string_view name;                    // its tensor in a checkpoint is NAME.PARAMETER
  ParameterNumber elements = each_element;  // 0: nothing is kept of this parameter
  std::string_view unless_zero = {};        // an option: where it is 0 there is no such slot
  std::optional<DType> type = {};           // not given: f32, or f64 of an f64 model
};

/// What one call of a rule's step takes: an interval of a parameter's flat elements (whole blocks of kUpdateBlock, the
/// last one may be shorter; same bits however a parameter is cut), or the whole parameter, which one rank then owns.
enum class UpdateGrain : uint8_t { interval, parameter };
inline constexpr int64_t kUpdateBlock = int64_t{1} << 16;  // elements: the blocks of sum_of_squares
inline UpdateGrain by_interval(const ParameterForm&) { return UpdateGrain::interval; }
inline UpdateGrain by_parameter(const ParameterForm&) { return UpdateGrain::parameter; }

/// Sums over elements that a step needs before it begins: taken block by block (kUpdateBlock) in doubles and added in the order
/// of blocks, so that ranks which share a parameter exchange the blocks' sums and get the bits of one rank.
struct UpdateSums {
  enum class Over : uint8_t { parameter, model };
  int count = 0;  // at most kMaxUpdateSums
  Over over = Over::parameter;
  std::string_view unless_zero = {};  // an option: where it is 0 no sums are taken
};
inline constexpr int kMaxUpdateSums = 2;

struct UpdateRuleRow {
  std::vector<StateSlot> slots;
  std::vector<RuleOption> options;
  ParameterNumber flops;  // of one step of one parameter, at most
  UpdateGrain (*grain)(const ParameterForm&) = by_interval;
  UpdateSums sums = {};
  ParameterNumber temporary =
      nullptr;                    // elements (f32, or f64 of an f64 model) of scratch that a step needs while it runs
  std::string_view clip = "1.0";  // default of --clip; empty: the rule has no clipping, as it would change no step
  bool computes_elsewhere =
      false;  // gradients are taken at another point than the masters; the weights are then tensors of their own
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
/// The part [first, second) of a slot that belongs to the elements [begin, end) of a parameter; whole blocks.
std::pair<int64_t, int64_t> slot_interval(const UpdateConfig&, const StateSlot&, const ParameterForm&, int64_t begin,
                                          int64_t end);
/// How many sums a step takes with these options.
int num_sums(const UpdateConfig&);
/// Whether the masters are tensors of their own: of weights narrower than f32, and where gradients are taken elsewhere.
bool has_own_masters(const UpdateConfig&, DType dtype);
/// For rules inside a projection (update/galore.h): how many directions of a matrix's shorter side are kept, and the form of the
/// projected gradient; for other parameters 0, and their own form.
int64_t projection_rank(const UpdateConfig&, const ParameterForm&);
ParameterForm projected_form(int64_t rank, const ParameterForm&);
/// Elements that a step of the parameter needs while it runs.
int64_t temporary_elements(const UpdateConfig&, const ParameterForm&);
/// The most bytes of temporaries that the step of any one parameter needs.
int64_t update_workspace(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);
/// Bytes of optimizer state: the slots, and masters where they are tensors of their own; `dtype` is the weights'.
int64_t state_bytes(const UpdateConfig&, DType dtype, const ParameterForm&);
int64_t state_bytes(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

/// The cost of one step of the parameters. Bytes: gradients are read and cleared; masters and slots read and written; weights
/// are written if they are not the masters; for sums, gradients and masters are read once more.
struct UpdateCost {
  int64_t flops = 0, bytes_moved = 0;
};
UpdateCost update_cost(const UpdateConfig&, DType dtype, const std::vector<CountedForm>&);

}  // namespace tern
