#include "apps/sampling_settings.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"

namespace tern {
namespace {

// A sampling value: the flag, else generation_config.json, else the neutral value; and where it came from.
struct Chosen {
  double value;
  std::string origin;
};
Chosen choose(const Options& options, const char* flag, std::optional<double> from_file, double neutral) {
  if (options.given(flag))
    return {options.value(flag).spec->type == OptionType::integer ? static_cast<double>(options.integer(flag))
                                                                  : options.real(flag),
            options.value(flag).where};
  if (from_file) return {*from_file, "generation_config.json"};
  return {neutral, "default"};
}

// At temperature 0 the likeliest token is taken: what only shapes a draw does nothing, and is refused if it was asked
// for (a neutral value is not asking), or taken out if only the file says so.
void refuse_idle_flags(const Options& options, SamplingSettings& s) {
  const auto idle = [&](const char* flag, auto& value, auto neutral, const char* name) {
    if (value == neutral) return;
    if (options.given(flag))
      throw Error(ErrorKind::usage,
                  "{}: does nothing at temperature 0 ({}), which always takes the likeliest token; give --temperature "
                  "above 0, or leave it out",
                  options.value(flag).where,
                  options.given("temperature") ? options.value("temperature").where : "the default");
    value = neutral;
    for (SettingOrigin& o : s.origins)
      if (o.name == name) o = {name, static_cast<double>(neutral), "off: temperature 0"};
  };
  idle("top-k", s.sampling.top_k, int64_t{0}, "top_k");
  idle("top-p", s.sampling.top_p, 1.0, "top_p");
  idle("min-p", s.sampling.min_p, 0.0, "min_p");
  if (options.given("seed") && options.value("seed").origin == Origin::command_line)
    log_info("--seed changes nothing at temperature 0: the likeliest token is always taken");
}

}  // namespace

// Greedy unless generation_config.json says do_sample, or a flag asks for sampling (as transformers decides).
SamplingSettings sampling_settings(const Options& options, const GenerationConfig& file) {
  SamplingSettings s;
  const bool file_samples = file.do_sample.value_or(false);
  const bool flag_samples = options.given("top-k") || options.given("top-p") || options.given("min-p");
  const auto of_file = [&](std::optional<double> value) { return file_samples ? value : std::optional<double>(); };
  const auto take = [&](const char* name, const Chosen& chosen) {
    s.origins.push_back({name, chosen.value, chosen.origin});
    return chosen.value;
  };
  const double unset = file_samples || flag_samples ? 1.0 : 0.0;
  const auto top_k = file.top_k ? std::optional<double>(static_cast<double>(*file.top_k)) : std::nullopt;
  s.sampling.temperature = take("temperature", choose(options, "temperature", of_file(file.temperature), unset));
  s.sampling.top_k = static_cast<int64_t>(take("top_k", choose(options, "top-k", of_file(top_k), 0)));
  s.sampling.top_p = take("top_p", choose(options, "top-p", of_file(file.top_p), 1));
  s.sampling.min_p = take("min_p", choose(options, "min-p", of_file(file.min_p), 0));
  s.sampling.repetition_penalty =
      take("repetition_penalty", choose(options, "repetition-penalty", file.repetition_penalty, 1));
  s.sampling.presence_penalty = take("presence_penalty", choose(options, "presence-penalty", {}, 0));
  s.sampling.frequency_penalty = take("frequency_penalty", choose(options, "frequency-penalty", {}, 0));
  s.sampling.seed = static_cast<uint64_t>(options.integer("seed"));
  if (s.sampling.top_p == 0 && !options.given("top-p"))
    throw Error(ErrorKind::bad_file,
                "generation_config.json: top_p is 0, expected above 0 and at most 1; --top-p on the command line wins");
  check_sampling(s.sampling);
  if (s.sampling.temperature == 0) refuse_idle_flags(options, s);
  return s;
}

}  // namespace tern
