#include "formats/hf/nf4_state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tern {

Nf4State parse_nf4_state(std::string_view text, std::string_view place) {
  const Json json = parse_json(text, place, {.max_bytes = 1 << 16});
  const auto whole = [](const Json& x) { return x.is_number_integer() && x > 0 && x <= INT32_MAX; };
  const auto find = [&](const char* key) -> const Json* {
    const auto at = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && at != json.end() ? &*at : nullptr;
  };
  Nf4State state;
  const Json* block = find("blocksize");
  if (!block || !whole(*block)) throw Error(ErrorKind::bad_file, "{}: key blocksize is no number above 0", place);
  state.block = block->get<int64_t>();
  if (const Json* nested = find("nested_blocksize"); nested && whole(*nested))
    state.nested_block = nested->get<int64_t>();
  if (const Json* offset = find("nested_offset"); offset && offset->is_number()) state.offset = offset->get<double>();
  if (const Json* shape = find("shape"); shape && shape->is_array())
    for (const Json& n : *shape) state.shape.push_back(whole(n) ? n.get<int64_t>() : 0);
  return state;
}

}  // namespace tern
