#include "base/kv_type.h"

namespace tern {

std::string_view name_of(KvType type) {
  constexpr std::string_view names[]{"f64", "f32", "bf16", "q8", "q4"};
  return names[static_cast<size_t>(type)];
}

std::optional<KvType> kv_type_from_name(std::string_view name) {
  for (const KvType type : {KvType::f64, KvType::f32, KvType::bf16, KvType::q8, KvType::q4})
    if (name_of(type) == name) return type;
  return {};
}

}  // namespace tern
