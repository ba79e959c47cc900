#include "train/settings_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "base/crc32c.h"
#include "base/io.h"
#include "model/adapter_files.h"
#include "train/outer_settings.h"
#include "train/robust_settings.h"
#include "train/settings_ranks.h"

namespace tern {
namespace {

template <class T>
std::string number(T x) {
  return fmt::format("{}", x);
}

Facts adapter_facts(const AdapterSettings& a) {
  Facts f;
  const PeftConfig& c = a.config;
  const int64_t pool = a.pool, repeat = a.repeat;
  f.emplace_back("method", a.preference        ? "dpo"
                           : repeat > 1        ? "qblora"  // or qablora, which is the same form
                           : pool > 1          ? "qalora"
                           : a.elastic         ? "irqlora"
                           : c.magnitude       ? "dora"
                           : c.rank_stabilized ? "rslora"
                                               : "lora");
  if (repeat > 1 || (pool > 1 && pool != 64)) f.emplace_back("pool", number(pool));
  if (repeat > 1) f.emplace_back("repeat", number(repeat));
  f.emplace_back("rank", number(c.rank));
  f.emplace_back("alpha", number(c.alpha));
  f.emplace_back("target", c.targets.all_linear ? "all-linear" : fmt::format("{}", fmt::join(c.targets.names, ",")));
  if (!c.saved.empty()) f.emplace_back("save-modules", fmt::format("{}", fmt::join(c.saved, ",")));
  f.emplace_back("init", std::string(name_of(a.init)));
  if (a.preference) f.emplace_back("dpo-beta", number(*a.preference));
  if (c.dropout > 0) f.emplace_back("adapter-dropout", number(c.dropout));
  if (a.b_rate != 1) f.emplace_back("lora-plus-ratio", number(a.b_rate));
  if (!a.begin.empty())
    f.emplace_back("adapter's beginning",
                   fmt::format("CRC-32C {:08x}", file_crc32c(real_io(), peft_weights_file(a.begin))));
  if (!a.trains_a) f.emplace_back("trained of an adapter", "B");
  return f;
}

const std::string* find(const Facts& facts, const std::string& key) {
  for (const auto& [name, value] : facts)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

Facts settings_facts(const TrainSettings& s, const RunIdentity& id) {
  Facts f = {{"model", id.model},
             {"tokenizer", id.tokenizer},
             {"data", id.data},
             {"seq", number(s.seq)},
             {"batch", number(s.batch)},
             {"micro-batch", number(s.micro_batch)},
             {"sum-groups", number(s.sum_order.groups) + (sums_each_micro_batch(s) ? " in each micro-batch" : "")},
             {"steps", number(s.schedule.total_steps)},
             {"learning-rate", number(s.schedule.peak)},
             {"min-learning-rate", number(s.schedule.minimum)},
             {"schedule", std::string(name_of(s.schedule.kind))},
             {"warmup-steps", number(s.schedule.warmup_steps)},
             {"decay-steps", number(s.schedule.decay_steps)},
             {"optimizer", std::string(name_of(s.optimizer.rule))},
             {"clip", number(s.optimizer.clip)},
             {"dtype", std::string(name_of(s.dtype))},
             {"multiply", std::string(name_of(s.multiply))},
             {"shuffle", s.shuffle ? "on" : "off"},
             {"seed", number(s.seed)}};
  for (const RuleOption& option : row_of(s.optimizer.rule).options)
    f.emplace_back(option.name, number(s.optimizer.option(option.name)));
  if (s.async)
    for (Facts::value_type& fact : async_facts(*s.async)) f.push_back(std::move(fact));
  if (s.robust)
    for (Facts::value_type& fact : robust_facts(s)) f.push_back(std::move(fact));
  if (s.outer)
    for (Facts::value_type& fact : outer_facts(s)) f.push_back(std::move(fact));
  if (s.perturbation) {
    f.emplace_back("gradients", "zeroth-order");
    f.emplace_back("perturbation", number(*s.perturbation));
  }
  if (s.answers != Answers::all) f.emplace_back("answers", std::string(name_of(s.answers)));
  if (s.adapter)
    for (Facts::value_type& fact : adapter_facts(*s.adapter)) f.push_back(std::move(fact));
  return f;
}

Facts recipe_facts(const std::string& recipe_toml) {
  Facts f;
  for (size_t begin = 0, end = 0; begin < recipe_toml.size(); begin = end + 1) {
    end = std::min(recipe_toml.find('\n', begin), recipe_toml.size());
    const std::string line = recipe_toml.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (line.starts_with('#') || equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    if (name == "output" || name == "memory" || name == "threads") continue;
    std::string value = line.substr(equals + 3, line.find("  # ", equals) - equals - 3);
    if (value.starts_with('"') && value.ends_with('"') && value.size() > 1) value = value.substr(1, value.size() - 2);
    f.emplace_back(name, value.find('/') == std::string::npos ? value : "a path");
  }
  return f;
}

// What is trained on what, then what makes a run another kind of run, then the rest.
size_t place_of(const std::string& sentence) {
  constexpr std::array<std::string_view, 12> kFirst{"model",        "tokenizer",   "data",          "--method",
                                                    "--gradients",  "--optimizer", "--async-rule",  "--workers",
                                                    "--aggregator", "--outer",     "--outer-every", "--ranks"};
  const std::string_view key = std::string_view(sentence).substr(0, sentence.find(':'));
  return static_cast<size_t>(std::ranges::find(kFirst, key) - kFirst.begin());
}

SettingsChange compare_settings(const Manifest& checkpoint, const Facts& settings, const Facts& made_by) {
  SettingsChange change;
  const auto number = [](const std::string* text) {
    int64_t value = 0;
    if (text) std::from_chars(text->data(), text->data() + text->size(), value);
    return value;
  };
  const auto flag = [](const std::string& key) {
    const bool is_option = key != "model" && key != "tokenizer" && key != "data";
    return is_option ? "--" + key : key;
  };
  const bool rate_depends_on_steps = [&] {
    const std::string* kind = find(settings, "schedule");
    return kind && *kind != name_of(LearningRateKind::constant);
  }();

  for (const auto& [key, now] : settings) {
    const std::string* then = find(checkpoint.settings, key);
    if (then ? *then == now : key == "sum-groups" && now == "1") continue;  // older checkpoints: one group
    const bool in_words = now.find(' ') != std::string::npos;
    const std::string sentence = fmt::format("{}: {} in the checkpoint, {}{}{}", flag(key), then ? *then : "not set",
                                             in_words ? "now " : "", now, in_words ? "" : " now");
    if (key == "steps") {
      if (number(&now) < checkpoint.step)
        change.refused.push_back(sentence + fmt::format(", and step {} is done", checkpoint.step));
      else if (rate_depends_on_steps)
        change.warned.push_back(sentence + ": the learning rate goes on as if it had been so from the start");
    } else if (key == "micro-batch" || key == "sum-groups" || key == "multiply") {
      change.warned.push_back(sentence + ": sums are taken in another order from here on");
    } else if ((key == "warmup-steps" || key == "decay-steps") && then && find(checkpoint.settings, "steps") &&
               number(find(checkpoint.settings, "steps")) != number(find(settings, "steps"))) {
      // Defaults derived from --steps move with it.
      change.warned.push_back(sentence);
    } else {
      change.refused.push_back(sentence);
    }
  }
  for (const auto& [key, then] : checkpoint.settings)
    if (!find(settings, key))
      change.refused.push_back(fmt::format("{}: {} in the checkpoint, not set now", flag(key), then));
  std::ranges::stable_sort(change.refused, {}, place_of);
  for (const auto& [key, now] : made_by) {
    const std::string* then = find(checkpoint.made_by, key);
    if (then ? *then == now
             : (key == "tensor-parallel" || key == "context-parallel" || key == "expert-parallel") && now == "1")
      continue;  // older checkpoints: none
    change.warned.push_back(
        fmt::format("{}: {} when the checkpoint was made, {} now; bits may differ from an uninterrupted run", key,
                    then ? *then : "not recorded", now));
  }
  return change;
}

}  // namespace tern
