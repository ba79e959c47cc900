#include "update/rule.h"

namespace tern {

UpdateStep step_of(UpdateRule rule) {
  constexpr UpdateStep steps[] = {
#define TERN_UPDATE_RULE(name, ...) name##_update,
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE
  };
  return steps[static_cast<size_t>(rule)];
}

}  // namespace tern
