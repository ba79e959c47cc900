#include "calibrate/calibration_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "base/toml.h"
#include "calibrate/prediction_scores.h"

namespace tern {
namespace {

std::string escaped(const std::string& text) { return replace_all(replace_all(text, "\\", "\\\\"), "\"", "\\\""); }

std::string number(double x) {
  std::string text = fmt::format("{}", x);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

// Words as in the columns of tables.
std::string_view sums_word(GradientSums s) {
  return s == GradientSums::apart ? "apart" : s == GradientSums::in_products ? "in products" : "passes";
}
std::string traits_toml(const FrameworkTraits& t) {
  std::string out = "\n[framework]  # how the runs computed; plans are priced likewise\n";
  out += fmt::format("products = \"{}\"\n", t.product_rate > 1 ? "8-bit" : "16-bit");
  out += fmt::format("gradient_sums = \"{}\"\n", sums_word(t.sums));
  out += fmt::format("sequence_parallelism = \"{}\"\n", t.sequence_parallel ? "on" : "off");
  out += fmt::format("tensor_overlap = \"{}\"\n", t.hides_input_gradient_sums ? "gradients" : "off");
  out += fmt::format("weight_gathers = \"{}\"\n", t.gathers_weights_beside ? "beside" : "before");
  return out + fmt::format("context_exchange = \"{}\"\n", t.gathers_context ? "gather" : "ring");
}

FrameworkTraits read_traits(const TomlValue& table, const std::string& path) {
  TomlFields f(table, path, "framework.");
  const auto place_of = [&](std::string_view key, const std::vector<std::string_view>& words) {
    const std::string word = f.text(key);
    const auto at = std::find(words.begin(), words.end(), word);
    if (at == words.end())
      f.fail(key, "'{}' is none of {}", make_printable(word), join({words.begin(), words.end()}, ", "));
    return at - words.begin();
  };
  FrameworkTraits t;
  t.product_rate = place_of("products", {"16-bit", "8-bit"}) == 1 ? 2 : 1;
  const std::array sums{GradientSums::passes, GradientSums::apart, GradientSums::in_products};
  t.sums = sums[static_cast<size_t>(
      place_of("gradient_sums", {sums_word(sums[0]), sums_word(sums[1]), sums_word(sums[2])}))];
  t.sequence_parallel = place_of("sequence_parallelism", {"on", "off"}) == 0;
  t.hides_input_gradient_sums = place_of("tensor_overlap", {"off", "gradients"}) == 1;
  // Files written before there were these keys lack them.
  if (f.has("weight_gathers")) t.gathers_weights_beside = place_of("weight_gathers", {"before", "beside"}) == 1;
  if (f.has("context_exchange")) t.gathers_context = place_of("context_exchange", {"ring", "gather"}) == 1;
  f.finish();
  return t;
}

}  // namespace

std::string calibration_toml(const Calibration& c) {
  std::string out = "# Constants of tern's cost model, fitted to measured runs. docs/calibration.md explains each.\n";
  out += "version = 2\n";
  out += fmt::format("hardware = {}\ndevice = {}\n", toml_text(c.hardware), toml_text(c.device));
  out +=
      fmt::format("precision = \"{}\"\npeak = {}  # FLOP/s, of the data sheet\n", name_of(c.precision), number(c.peak));
  out += fmt::format("software = {}\ndata = {}\nrows = {}\n", toml_text(c.software), toml_text(c.data), c.rows);
  out += "\n[constants]\n";
  for (size_t k = 0; k < kNumConstants; ++k) {
    const ConstantSpec& s = constant_specs()[k];
    out += fmt::format("{} = {}  # {}, {} to {}: {}\n", s.name, number(c.constants[k]), s.unit, s.least, s.most,
                       s.meaning);
  }
  if (c.traits) out += traits_toml(*c.traits);
  const PredictionErrors& e = c.left_out;
  const std::string cluster = "\n[cluster]\ntoml = \"\"\"\n" + escaped(c.cluster) + "\"\"\"\n";
  if (e.rows == 0) return out + cluster;
  out += fmt::format("\n[left_out]  # errors on rows the constants were not fitted to\nfolds = \"{}\"\nrows = {}\n",
                     name_of(c.folds), e.rows);
  out += fmt::format("median = {}\nmean = {}\nninth = {}  # nine in ten are below\nmost = {}\n", number(e.median),
                     number(e.mean), number(e.ninth), number(e.most));
  out += fmt::format("least_ratio = {}  # measured / predicted: 19 in 20 are above\nmost_ratio = {}\n",
                     number(e.least_ratio), number(e.most_ratio));
  return out + cluster;
}

Calibration parse_calibration(std::string_view toml, const std::string& path) {
  const TomlValue root = parse_toml(toml, path);
  TomlFields f(root, path);
  if (const int64_t version = f.integer("version", 1, 1 << 20); version > 2)
    f.fail("version", "{}, this tern reads 1 and 2", version);
  Calibration c;
  c.hardware = f.text("hardware"), c.device = f.text("device");
  c.precision = f.dtype("precision");
  c.peak = f.number("peak", 1e6, 1e18);
  c.software = f.text("software"), c.data = f.text("data");
  c.rows = f.integer("rows", 1, int64_t{1} << 40);
  TomlFields k(f.require("constants", TomlValue::Kind::table), path, "constants.");
  for (size_t i = 0; i < kNumConstants; ++i) {
    const ConstantSpec& s = constant_specs()[i];
    c.constants[i] = k.number(s.name, s.least, s.most);
  }
  k.finish();
  if (const TomlValue* table = f.optional("framework", TomlValue::Kind::table)) c.traits = read_traits(*table, path);
  if (const TomlValue* table = f.optional("left_out", TomlValue::Kind::table)) {
    TomlFields e(*table, path, "left_out.");
    const std::string folds = e.text("folds");
    const std::array all{FoldBy::rows, FoldBy::layout, FoldBy::model};
    const auto at = std::find_if(all.begin(), all.end(), [&](FoldBy by) { return name_of(by) == folds; });
    if (at == all.end()) e.fail("folds", "'{}' is none of rows, layout, model", make_printable(folds));
    c.folds = *at;
    c.left_out.rows = static_cast<size_t>(e.integer("rows", 1, int64_t{1} << 40));
    c.left_out.median = e.number("median", 0, 1e6), c.left_out.mean = e.number("mean", 0, 1e6);
    c.left_out.ninth = e.number("ninth", 0, 1e6), c.left_out.most = e.number("most", 0, 1e6);
    c.left_out.least_ratio = e.number("least_ratio", 1e-30, 1e30);
    c.left_out.most_ratio = e.number("most_ratio", 1e-30, 1e30);
    if (c.left_out.median > c.left_out.ninth || c.left_out.ninth > c.left_out.most)
      e.fail("ninth", "{}, expected between median {} and most {}", c.left_out.ninth, c.left_out.median,
             c.left_out.most);
    if (c.left_out.least_ratio > c.left_out.most_ratio)
      e.fail("least_ratio", "{}, expected at most most_ratio {}", c.left_out.least_ratio, c.left_out.most_ratio);
    e.finish();
  }
  TomlFields cluster(f.require("cluster", TomlValue::Kind::table), path, "cluster.");
  c.cluster = cluster.text("toml");
  cluster.finish();
  parse_cluster(c.cluster, path + ": cluster.toml");
  f.finish();
  return c;
}

Calibration read_calibration(const std::string& path) { return parse_calibration(real_io().read(path), path); }

Cluster calibrated(const Cluster& cluster, const Calibration& c, DType dtype) {
  if (dtype != c.precision)
    throw Error(
        ErrorKind::usage,
        "calibration of {} for runs in {}: calibrate runs in {}, or, if these runs have no dtype of their own, give "
        "--dtype {}",
        name_of(c.precision), name_of(dtype), name_of(dtype), name_of(c.precision));
  const Cluster fitted = parse_cluster(c.cluster, "the calibration's cluster");
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    if (!cluster.has_nodes_of(static_cast<int>(i))) continue;
    const DeviceType& d = cluster.devices[i];
    const auto peak = std::find_if(d.peak.begin(), d.peak.end(), [&](const auto& p) { return p.first == dtype; });
    if (d.name != c.device || peak == d.peak.end() || std::abs(peak->second / c.peak - 1) > 1e-6)
      throw Error(ErrorKind::usage,
                  "calibration of device '{}' ({:.4g} FLOP/s in {}): '{}' has '{}'; calibrate that one",
                  make_printable(c.device), c.peak, name_of(dtype), cluster.name, d.name);
    // What passes through memory was fitted at its rate.
    for (const DeviceType& own : fitted.devices)
      if (own.name == d.name && std::abs(own.memory_bandwidth / d.memory_bandwidth - 1) > 1e-6)
        throw Error(ErrorKind::usage,
                    "calibration of '{}' with {:.4g} bytes/s of memory: that of '{}' has {:.4g}; calibrate that one",
                    make_printable(c.device), own.memory_bandwidth, cluster.name, d.memory_bandwidth);
  }
  Cluster out = with_constants(cluster, dtype, c.constants);
  for (size_t i = 0; i < out.devices.size(); ++i)
    if (out.has_nodes_of(static_cast<int>(i))) out.devices[i].framework.traits = c.traits.value_or(FrameworkTraits{});
  out.name += fmt::format(", calibrated by {} runs of {}", c.rows, make_printable(c.software));
  return out;
}

ErrorBar error_bar(const Calibration& c, double predicted) {
  return {predicted * std::min(1.0, c.left_out.least_ratio), predicted * std::max(1.0, c.left_out.most_ratio)};
}

}  // namespace tern
