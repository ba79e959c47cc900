#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/hf/config_impl.h"

// Source: which keys each rotary type needs and takes, and their defaults, as the rotary validation of
// transformers 5.23 does (observed by running it). Stricter: what it warns about is an error here.

namespace tern {
namespace {

constexpr HfRopeName kRopeNames[] = {{"default", RopeType::standard}, {"linear", RopeType::linear},
                                     {"dynamic", RopeType::dynamic},  {"yarn", RopeType::yarn},
                                     {"llama3", RopeType::llama3},    {"longrope", RopeType::longrope}};

bool has_original_length(RopeType type) {
  return type == RopeType::yarn || type == RopeType::llama3 || type == RopeType::longrope;
}

RopeType read_type(HfFields& fields, const HfFamily& family) {
  const std::optional<std::string> type = fields.text("type"), rope_type = fields.text("rope_type");
  if (type && rope_type && *type != *rope_type)
    fields.fail("rope_type", "'{}', but type is '{}'; keep one of them", *rope_type, *type);
  if (!type && !rope_type) return RopeType::standard;
  const std::string& name = rope_type ? *rope_type : *type;
  for (const HfRopeName& r : family.rope_names)
    if (name == r.name) return r.type;
  std::string known;
  std::vector<std::string_view> names;
  for (const HfRopeName& r : kRopeNames) {
    if (name == r.name) return r.type;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
    names.push_back(r.name);
  }
  fields.fail(rope_type ? "rope_type" : "type", "{} is not a rotary type tern has; it has {}{}",
              shown_value(Json(name)), known, did_you_mean(name, names));
}

double required(HfFields& fields, std::string_view key, RopeType type) {
  const std::optional<double> value = fields.number(key);
  if (!value) fields.fail(key, "missing; rotary type '{}' needs it", name_of(type));
  return *value;
}

/// What stands around the rotary object in the file.
struct Surroundings {
  const HfFamily& family;
  std::optional<double> theta, partial;
  std::optional<int64_t> original_length;
  double default_theta;
};

// What part of a head turns, if this family's may be less than all.
double read_partial(const HfFields& fields, std::optional<double> partial, const Surroundings& around) {
  const std::optional<double>& fallback = around.family.defaults.partial_rotary;
  if (!fallback && partial && *partial != 1.0)
    fields.fail("partial_rotary_factor", "{}, but {} rotates whole heads: expected 1", *partial, around.family.name);
  return fallback ? partial.value_or(*fallback) : 1;
}

// The numbers of the type.
void read_scaling(HfFields& fields, const char* key, HfRope& rope, HfConfig& config) {
  switch (rope.type) {
    case RopeType::none:
    case RopeType::standard:
      if (!fields.has("rope_type") && !fields.has("type") && fields.has("factor"))
        fields.fail("rope_type", "missing beside factor; expected linear, dynamic, yarn, llama3 or longrope");
      break;
    case RopeType::linear:
    case RopeType::dynamic:
      rope.factor = required(fields, "factor", rope.type);
      break;
    case RopeType::yarn:
      if (!fields.has("factor")) required(fields, "factor", rope.type);
      rope.factor = fields.number("factor", HfFields::Null::absent);
      if (!rope.factor && rope.original_max_position_embeddings > 0)
        rope.factor = static_cast<double>(config.max_position_embeddings) /
                      static_cast<double>(rope.original_max_position_embeddings);
      rope.attention_factor = fields.number("attention_factor", HfFields::Null::absent);
      rope.beta_fast = fields.number("beta_fast", HfFields::Null::absent).value_or(32.0);
      rope.beta_slow = fields.number("beta_slow", HfFields::Null::absent).value_or(1.0);
      rope.mscale = fields.number("mscale", HfFields::Null::absent);
      rope.mscale_all_dim = fields.number("mscale_all_dim", HfFields::Null::absent);
      rope.truncate = fields.boolean("truncate").value_or(true);
      if (fields.boolean("finetuned",
                         HfFields::Null::absent))  // written by the first yarn models; says how the model was made
        config.notes.push_back(fmt::format("{}: {}.finetuned is not used", fields.place(), key));
      break;
    case RopeType::llama3:
      rope.factor = required(fields, "factor", rope.type);
      rope.low_freq_factor = required(fields, "low_freq_factor", rope.type);
      rope.high_freq_factor = required(fields, "high_freq_factor", rope.type);
      if (rope.original_max_position_embeddings >= config.max_position_embeddings)
        config.notes.push_back(
            fmt::format("{}: original_max_position_embeddings {} is not below max_position_embeddings {}",
                        fields.place(), rope.original_max_position_embeddings, config.max_position_embeddings));
      break;
    case RopeType::longrope:
      rope.factor = fields.number("factor", HfFields::Null::absent);
      rope.attention_factor = fields.number("attention_factor", HfFields::Null::absent);
      for (auto [name, list] :
           {std::pair{"short_factor", &rope.short_factor}, std::pair{"long_factor", &rope.long_factor}}) {
        std::optional<std::vector<double>> values = fields.numbers(name);
        if (!values) fields.fail(name, "missing; rotary type 'longrope' needs it");
        *list = std::move(*values);
      }
      break;
  }
}

HfRope read_object(const Json& object, const std::string& place, const char* key, const Surroundings& around,
                   HfConfig& config) {
  HfFields fields(object, place, fmt::format("{}.", key));
  for (const auto& [name, value] : object.items())
    if (value.is_object())
      fields.fail(name, "an object: rotary numbers per kind of layer, which {} does not have; expected numbers",
                  config.model_type);

  HfRope rope;
  rope.type = read_type(fields, around.family);
  const std::optional<double> theta = fields.number("rope_theta", HfFields::Null::absent);
  if (theta && around.theta && *theta != *around.theta)
    fields.fail("rope_theta", "{}, but rope_theta outside says {}; keep one of them", *theta, *around.theta);
  rope.theta = theta.value_or(around.theta.value_or(around.default_theta));
  const std::optional<double> partial = fields.number("partial_rotary_factor", HfFields::Null::absent);
  rope.partial = read_partial(fields, partial ? partial : around.partial, around);

  const std::optional<int64_t> inside = fields.integer("original_max_position_embeddings", HfFields::Null::absent);
  if (has_original_length(rope.type)) {
    // The one outside wins: so Phi-3's files mean it, and so transformers reads every family.
    rope.original_max_position_embeddings =
        around.original_length.value_or(inside.value_or(config.max_position_embeddings));
  } else if ((inside || around.original_length) && !around.family.states_original_context) {
    config.notes.push_back(
        fmt::format("{}: original_max_position_embeddings is not used by rotary type '{}'", place, name_of(rope.type)));
  }

  read_scaling(fields, key, rope, config);
  fields.finish({});
  return rope;
}

}  // namespace

std::string_view name_of(RopeType type) {
  if (type == RopeType::none) return "none";
  for (const HfRopeName& r : kRopeNames)
    if (r.type == type) return r.name;
  return "?";
}

int64_t rotary_dim(const HfRope& rope, int64_t head_dim) {
  return static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial);
}

HfRope read_hf_rope(HfFields& top, const HfFamily& family, HfConfig& config) {
  Surroundings around{family, {}, {}, {}, family.defaults.rope_theta};
  const auto either = [&](std::string_view field) {
    const std::optional<double> value = top.number(field, HfFields::Null::absent);
    const std::string_view key = hf_key(family.name, field);
    if (key == field) return value;
    const std::optional<double> other = top.number(key, HfFields::Null::absent);
    if (value && other && *value != *other) top.fail(key, "{}, but {} is {}; keep one of them", *other, field, *value);
    return value ? value : other;
  };
  around.theta = either("rope_theta");
  around.partial = either("partial_rotary_factor");
  around.original_length = top.integer("original_max_position_embeddings", HfFields::Null::absent);
  read_partial(top, around.partial, around);
  const bool local = family.defaults.local_rope_theta > 0;
  Surroundings around_local{family, {}, {}, {}, family.defaults.local_rope_theta};
  if (local) around_local.theta = top.number("rope_local_base_freq", HfFields::Null::absent);

  std::optional<HfRope> rope;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* object = top.take(key);
    if (!object || object->is_null()) continue;
    if (!object->is_object()) top.fail(key, "{}, expected an object or null", shown_value(*object));
    if (object->empty()) continue;
    HfRope read;
    if (local && object->contains("full_attention")) {
      HfFields kinds(*object, top.place(), fmt::format("{}.", key));
      read = read_object(*kinds.take("full_attention"), top.place(), "full_attention", around, config);
      if (const Json* windowed = kinds.take("sliding_attention"))
        config.local_rope = read_object(*windowed, top.place(), "sliding_attention", around_local, config);
      kinds.finish({});
    } else {
      read = read_object(*object, top.place(), key, around, config);
    }
    if (rope && !(*rope == read)) top.fail(key, "differs from rope_parameters; keep one of them");
    rope = read;
  }
  if (!rope && family.defaults.rope) {
    rope = family.defaults.rope;
    rope->theta = around.theta.value_or(rope->theta);
  } else if (!rope) {
    rope.emplace();
    rope->type = RopeType::standard;
    rope->theta = around.theta.value_or(around.default_theta);
    rope->partial = read_partial(top, around.partial, around);
    if (around.original_length && !family.states_original_context)
      config.notes.push_back(
          fmt::format("{}: original_max_position_embeddings is not used by rotary type 'default'", top.place()));
  }
  if (local && !config.local_rope) {
    config.local_rope.emplace();
    config.local_rope->type = RopeType::standard;
    config.local_rope->theta = around_local.theta.value_or(around_local.default_theta);
  }
  return *rope;
}

void check_hf_rope(const HfConfig& config, const HfRope& r, ErrorKind kind, std::string_view place) {
  const auto wrong = [&](std::string_view field, const std::string& value, std::string_view expected) {
    throw Error(kind, "{}: rotary {} is {}, expected {}", place, field, value, expected);
  };
  const auto at_least = [&](std::string_view field, double value, double min) {
    if (!(value >= min) || !std::isfinite(value))
      wrong(field, fmt::format("{}", value), fmt::format("at least {}", min));
  };
  if (!(r.theta > 1) || !std::isfinite(r.theta)) wrong("rope_theta", fmt::format("{}", r.theta), "more than 1");
  if (!(r.partial > 0 && r.partial <= 1))
    wrong("partial_rotary_factor", fmt::format("{}", r.partial), "more than 0 and at most 1");
  const int64_t turned = rotary_dim(r, config.head_dim);
  if (r.partial == 1 && turned % 2 != 0)
    throw Error(kind, "{}: head_dim is {}, expected an even number: rotary positions turn pairs", place,
                config.head_dim);
  if (turned < 2 || turned % 2 != 0)
    throw Error(kind, "{}: {} of head_dim {} is {} elements, expected an even number: rotary positions turn pairs",
                place, r.partial, config.head_dim, turned);

  const bool factor_needed = r.type == RopeType::linear || r.type == RopeType::dynamic || r.type == RopeType::yarn ||
                             r.type == RopeType::llama3;
  if (factor_needed && !r.factor) wrong("factor", "missing", "a number of at least 1");
  if (r.factor) at_least("factor", *r.factor, 1);
  if (has_original_length(r.type) &&
      (r.original_max_position_embeddings < 2 || r.original_max_position_embeddings > INT32_MAX))
    wrong("original_max_position_embeddings", fmt::format("{}", r.original_max_position_embeddings), "2 to 2147483647");
  if (r.attention_factor && !(*r.attention_factor > 0 && std::isfinite(*r.attention_factor)))
    wrong("attention_factor", fmt::format("{}", *r.attention_factor), "more than 0");

  if (r.type == RopeType::dynamic && turned < 4)
    throw Error(kind, "{}: head_dim is {}, expected at least 4 with rotary type 'dynamic'", place, turned);
  if (r.type == RopeType::yarn) {
    if (!(r.beta_slow > 0) || !std::isfinite(r.beta_slow))
      wrong("beta_slow", fmt::format("{}", r.beta_slow), "more than 0");
    at_least("beta_fast", r.beta_fast, r.beta_slow);
    if (r.mscale) at_least("mscale", *r.mscale, 0);
    if (r.mscale_all_dim) at_least("mscale_all_dim", *r.mscale_all_dim, 0);
  }
  if (r.type == RopeType::llama3) {
    if (!(r.low_freq_factor > 0) || !std::isfinite(r.low_freq_factor))
      wrong("low_freq_factor", fmt::format("{}", r.low_freq_factor), "more than 0");
    if (!(r.high_freq_factor > r.low_freq_factor) || !std::isfinite(r.high_freq_factor))
      wrong("high_freq_factor", fmt::format("{}", r.high_freq_factor),
            fmt::format("more than low_freq_factor {}", r.low_freq_factor));
  }
  if (r.type == RopeType::longrope) {
    for (const auto& [name, list] :
         {std::pair{"short_factor", &r.short_factor}, std::pair{"long_factor", &r.long_factor}}) {
      if (static_cast<int64_t>(list->size()) != turned / 2)
        wrong(name, fmt::format("a list of {}", list->size()), fmt::format("{} numbers, half of head_dim", turned / 2));
      for (const double x : *list)
        if (!(x > 0) || !std::isfinite(x)) wrong(name, fmt::format("{} at one place", x), "numbers above 0");
    }
  }
}

}  // namespace tern
