#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/hf/config_impl.h"

// Source: how transformers 5.23 fills layer_types, sliding_window and no_rope_layers of each family, observed by
// running it.

namespace tern {
namespace {

// All alike: an empty list says it.
std::vector<bool> unless_all(std::vector<bool> layers) {
  return std::all_of(layers.begin(), layers.end(), [](bool x) { return x; }) ? std::vector<bool>{} : layers;
}

void read_unturned(HfFields& fields, const HfFamily& family, HfConfig& c) {
  if (family.blocks.unturned_every == 0 || family.blocks.windows == HfWindows::listed) return;
  const int64_t every = fields.integer("no_rope_layer_interval").value_or(family.blocks.unturned_every);
  if (every < 1) fields.fail("no_rope_layer_interval", "{}, expected at least 1", every);
  std::vector<bool> turned;
  const Json* list = fields.take("no_rope_layers");
  if (list && !list->is_null()) {
    if (!list->is_array() || static_cast<int64_t>(list->size()) < c.num_hidden_layers)
      fields.fail("no_rope_layers", "{}, expected a list of one 0 or 1 for each of {} layers", shown_value(*list),
                  c.num_hidden_layers);
    for (const Json& x : *list) {
      if (!x.is_number_integer() || (x != 0 && x != 1))
        fields.fail("no_rope_layers", "holds {}, expected 0 or 1", shown_value(x));
      if (static_cast<int64_t>(turned.size()) < c.num_hidden_layers) turned.push_back(x == 1);
    }
  } else {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) turned.push_back((i + 1) % every != 0);
  }
  c.rotary_layers = unless_all(std::move(turned));
}

// Which layers have a window, where the file does not list them.
std::vector<bool> usual_windows(HfFields& fields, const HfFamily& family, const HfConfig& c) {
  std::vector<bool> windowed;
  if (family.blocks.windows == HfWindows::switched && family.blocks.unturned_every > 0) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      windowed.push_back(!c.rotary_layers.empty() && !c.rotary_layers[static_cast<size_t>(i)]);
  } else if (family.blocks.windows == HfWindows::switched || family.blocks.windows == HfWindows::switched_even) {
    const bool even = family.blocks.windows == HfWindows::switched_even;
    const int64_t full = fields.integer("max_window_layers", HfFields::Null::absent).value_or(28);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) windowed.push_back(even ? i % 2 == 0 && i < full : i >= full);
  } else if (family.blocks.full_every == 1) {  // dots1
    const int64_t full = fields.integer("max_window_layers", HfFields::Null::absent).value_or(62);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) windowed.push_back(i >= full);
  } else {
    const auto pattern = fields.integer("sliding_window_pattern", HfFields::Null::absent);
    if (!pattern && family.blocks.full_every == 0 && c.sliding_window)
      fields.fail("layer_types", "missing; a {} model with a sliding_window needs it", family.name);
    const int64_t every = pattern.value_or(std::max<int64_t>(family.blocks.full_every, 1));
    if (every < 1) fields.fail("sliding_window_pattern", "{}, expected at least 1", every);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) windowed.push_back((i + 1) % every != 0);
  }
  return windowed;
}

}  // namespace

void read_hf_layers(HfFields& fields, const HfFamily& family, HfConfig& c) {
  const HfWindows windows = family.blocks.windows;
  const bool listed = windows == HfWindows::switched || windows == HfWindows::switched_even;
  const bool each = listed || windows == HfWindows::listed || family.blocks.unturned_every > 0;
  read_unturned(fields, family, c);
  const Json* window = fields.take("sliding_window");
  if (windows == HfWindows::none) {
    if (window && !window->is_null())
      fields.fail("sliding_window", "{}, but a {} model has none; expected null, or model_type mistral",
                  shown_value(*window), family.name);
  } else {
    c.sliding_window = window ? fields.integer("sliding_window", HfFields::Null::absent) : family.defaults.window;
  }
  if ((listed || windows == HfWindows::switched_every) &&
      !fields.boolean("use_sliding_window", HfFields::Null::absent).value_or(false)) {
    fields.take("max_window_layers");
    c.sliding_window = {};
  }
  const std::optional<std::vector<std::string>> kinds = fields.texts("layer_types", HfFields::Null::absent);
  if (!each) {
    if (kinds)
      for (const std::string& kind : *kinds)
        if (kind != (c.sliding_window ? "sliding_attention" : "full_attention"))
          fields.fail("layer_types", "holds {}, but every layer of this model has {}", shown_value(Json(kind)),
                      c.sliding_window ? "sliding_attention" : "full_attention");
    return;
  }

  if (windows == HfWindows::listed) fields.take("_sliding_window_pattern");
  std::vector<bool> windowed;
  if (kinds) {
    for (const std::string& kind : *kinds) {
      if (kind != "sliding_attention" && kind != "full_attention")
        fields.fail("layer_types", "holds {}, expected sliding_attention or full_attention", shown_value(Json(kind)));
      windowed.push_back(kind == "sliding_attention");
    }
    if (static_cast<int64_t>(windowed.size()) != c.num_hidden_layers)
      fields.fail("layer_types", "a list of {}, expected one of each of {} layers", windowed.size(),
                  c.num_hidden_layers);
    if (!c.sliding_window && std::count(windowed.begin(), windowed.end(), true) > 0)
      fields.fail("layer_types", "holds sliding_attention, but no sliding_window is set");
    for (const char* key : {"max_window_layers", "sliding_window_pattern"}) fields.take(key);
  } else {
    windowed = usual_windows(fields, family, c);
  }
  if (!c.sliding_window) return;
  // exaone4: beside windows, the layers that see all do not turn.
  const bool turns_in_windows = windows == HfWindows::listed && family.blocks.unturned_every > 0;
  if (std::count(windowed.begin(), windowed.end(), true) == 0) {
    if (turns_in_windows)
      fields.fail("layer_types", "no layer has the window of {}; a {} model without windows says sliding_window: null",
                  *c.sliding_window, family.name);
    c.sliding_window = {};
    return;
  }
  c.windowed_layers = unless_all(std::move(windowed));
  if (turns_in_windows) c.rotary_layers = c.windowed_layers;
}

}  // namespace tern
