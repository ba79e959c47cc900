#pragma once
// Settings as facts of a checkpoint's manifest, and which of them may change when a run is resumed.

#include <string>
#include <vector>

#include "train/manifest.h"
#include "train/settings.h"

namespace tern {

/// Which model, tokenizer and data these are. Settings hold only paths; the run computes these identities from the files.
struct RunIdentity {
  std::string model;      // "config 1a2b3c4d", and the checksum of the weights that it started from, if any
  std::string tokenizer;  // its hash
  std::string data;       // "12345 tokens, CRC-32C …"
};
/// The settings and identities as facts for a manifest.
Facts settings_facts(const TrainSettings&, const RunIdentity&);

/// What ranks of one run need alike of their recipes (TrainSettings::recipe_toml), before they exchange anything: each option and its value, of a
/// path that it is given. Not what each rank or machine has for itself: output, memory, threads.
Facts recipe_facts(const std::string& recipe_toml);

/// What differs between a checkpoint's facts and the present ones, each as a sentence: "--seq: 128 in the checkpoint, 256 now".
struct SettingsChange {
  // With these the run would not be the one that was begun: another model, data, tokenizer, seq, batch, seed, shuffle, dtype, rate,
  // schedule or optimizer, or fewer steps than the checkpoint has done. Order: model, tokenizer and data; options that make another kind of
  // run (--method, --optimizer, --async-rule, …); other settings in the order of settings_facts; settings that are not set now.
  std::vector<std::string> refused;
  // These do no harm, but the bits may differ from those of an uninterrupted run: another micro-batch, sum-groups or
  // multiply; other steps, if the schedule depends on them; other warmup-steps or decay-steps, if steps differ too; every fact of
  // `made_by` that differs (version, instruction set, threads, tensor-parallel, …).
  std::vector<std::string> warned;
};
SettingsChange compare_settings(const Manifest& checkpoint, const Facts& settings, const Facts& made_by);

}  // namespace tern
