#pragma once
// The calibration file: constants for one (hardware, precision, software), what they were fitted to, and how far off
// they are on rows they had not seen. TOML, version 2; version 1 does not say how the runs computed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "calibrate/constants.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"

namespace tern {

/// A calibration.
struct Calibration {
  std::string hardware, device;  // the cluster's name; its type of device
  double peak = 0;               // FLOP/s of that device for `precision`, by which a file for another device is refused
  DType precision = DType::f16;
  std::string software;  // the framework whose runs these were, as the user said
  std::string data;      // the table's name
  std::string cluster;   // the cluster file's text, so that tables can be priced without it
  int64_t rows = 0;      // rows that the constants were fitted to
  /// How these runs computed, by which plans are priced too. None: an old file, or the rows differ; plans then take the defaults, another
  /// formula than the one that was fitted.
  std::optional<FrameworkTraits> traits;
  Constants constants{};
  FoldBy folds = FoldBy::layout;
  PredictionErrors left_out;  // on rows left out by `folds`; rows 0: not known
};

/// The file's text. The same calibration is the same bytes, and what is read back is the same calibration.
std::string calibration_toml(const Calibration&);
/// Reads a calibration. Errors  bad_file "PATH:LINE: KEY: fact, expectation": unknown or missing keys, another version,
/// constants outside their bounds, errors that do not rise.
Calibration parse_calibration(std::string_view toml, const std::string& path);
Calibration read_calibration(const std::string& path);

/// The cluster with the calibration's rates and traits. Its name says so, and a plan made for it is for that name alone.
/// Errors  usage, if a device of the cluster's groups is not the calibration's, or the dtype is another.
Cluster calibrated(const Cluster&, const Calibration&, DType);

/// The range around a prediction, in seconds, in which nine tenths of the left-out rows lie (all of them, if they are
/// fewer than 20).
struct ErrorBar {
  double low = 0, high = 0;
};
/// The range around `predicted` seconds.
ErrorBar error_bar(const Calibration&, double predicted);

}  // namespace tern
