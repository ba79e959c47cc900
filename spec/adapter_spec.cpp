#include "spec/adapter_spec.h"

#include <array>

namespace tern {

std::string_view name_of(AdaptedModule module) {
  constexpr std::array<std::string_view, 13> kNames{"query",      "key",      "value",   "query_key_value", "out",
                                                    "query_down", "query_up", "kv_down", "kv_up",           "gate",
                                                    "up",         "gate_up",  "down"};
  return kNames[static_cast<size_t>(module)];
}

const ModuleAdapter* find_adapter(const UnitAdapters& adapters, AdaptedModule module) {
  for (const ModuleAdapter& a : adapters)
    if (a.module == module) return &a;
  return nullptr;
}

}  // namespace tern
