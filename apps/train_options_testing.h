#pragma once
// For tests of the options of `tern train`: what they make of a command line.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "base/error.h"
#include "base/options.h"
#include "train/settings.h"

namespace tern {

/// The settings of `tern train MODEL --dry-run WORDS`. Errors: those of train_settings.
inline TrainSettings settings_of_words(std::vector<std::string> words) {
  words.insert(words.begin(), {"MODEL", "--dry-run"});
  return train_settings(resolve_options(tern_options(), "train", words, {}, false));
}

/// The text of the usage error that `make` throws; "taken" if it throws none.
inline std::string refusal_of(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "taken";
}
/// The same of settings_of_words(words).
inline std::string refusal_of_words(const std::vector<std::string>& words) {
  return refusal_of([&] { settings_of_words(words); });
}

}  // namespace tern
