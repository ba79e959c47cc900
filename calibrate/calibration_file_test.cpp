#include "calibrate/calibration_file.h"

#include "formats/mutations_testing.h"
#include "hardware/machines.h"

namespace tern {
namespace {

Calibration some() {
  Calibration c{.hardware = "8 x A100 \"quoted\" \\",
                .device = "a100",
                .peak = 312e12,
                .precision = DType::f16,
                .software = "Megatron",
                .data = "runs.csv",
                .cluster = cluster_text("a100-80g"),
                .rows = 63,
                .traits = FrameworkTraits{.product_rate = 2,
                                          .sums = GradientSums::in_products,
                                          .sequence_parallel = false,
                                          .hides_input_gradient_sums = true,
                                          .gathers_weights_beside = true,
                                          .gathers_context = true},
                .constants = nominal_constants(),
                .folds = FoldBy::model};
  c.constants[0] = 0.1 + 0.2;  // a number without a short decimal
  c.left_out = {
      .rows = 60, .median = 0.02, .mean = 0.07, .ninth = 0.2, .most = 0.5, .least_ratio = 0.9, .most_ratio = 1.3};
  return c;
}

std::string failure(const std::string& text) {
  try {
    parse_calibration(text, "c.toml");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "read";
}
std::string changed(const std::string& from, const std::string& to) {
  std::string text = calibration_toml(some());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CalibrationFile, IsReadBackAsItWas) {
  const Calibration c = some(), back = parse_calibration(calibration_toml(c), "c.toml");
  EXPECT_EQ(back.constants, c.constants);
  EXPECT_EQ(back.hardware, c.hardware);
  EXPECT_EQ(back.cluster, c.cluster);
  EXPECT_EQ(back.traits, c.traits);
  EXPECT_EQ(back.folds, c.folds);
  EXPECT_EQ(back.left_out.most_ratio, c.left_out.most_ratio);
  EXPECT_EQ(calibration_toml(back), calibration_toml(c));
  Calibration unknown = c;
  unknown.left_out = {};
  EXPECT_EQ(parse_calibration(calibration_toml(unknown), "c.toml").left_out.rows, 0u);
  for (const GradientSums sums : {GradientSums::passes, GradientSums::apart, GradientSums::in_products}) {
    unknown.traits = FrameworkTraits{.sums = sums};
    EXPECT_EQ(parse_calibration(calibration_toml(unknown), "c.toml").traits, unknown.traits);
  }
  unknown.traits = std::nullopt;
  EXPECT_EQ(parse_calibration(calibration_toml(unknown), "c.toml").traits, std::nullopt);
}

// Version 1 has no [framework].
TEST(CalibrationFile, OldFilesAreStillRead) {
  Calibration c = some();
  c.traits = std::nullopt;
  std::string text = calibration_toml(c);
  const size_t at = text.find("version = 2");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "version = 1");
  const Calibration old = parse_calibration(text, "c.toml");
  EXPECT_EQ(old.traits, std::nullopt);
  EXPECT_EQ(old.constants, c.constants);
  EXPECT_EQ(calibrated(find_cluster("a100-80g"), old, DType::f16).devices[0].framework.traits, FrameworkTraits{});
}

TEST(CalibrationFile, RefusesWhatIsNone) {
  EXPECT_EQ(failure(calibration_toml(some())), "read");
  EXPECT_NE(failure(changed("version = 2", "version = 3")).find("this tern reads 1 and 2"), std::string::npos);
  EXPECT_NE(failure(changed("link_share = 0.8", "link_share = 1.2")).find("constants.link_share"), std::string::npos);
  EXPECT_NE(failure(changed("top = ", "topp = ")).find("has 'topp': is that meant?"), std::string::npos);
  EXPECT_NE(failure(changed("precision = ", "precison = ")).find("has 'precison': is that meant?"), std::string::npos);
  EXPECT_NE(failure(changed("precision = \"f16\"", "precision = \"f61\"")).find("c.toml:5: precision: "),
            std::string::npos);
  // Without the median the mean is not taken for it.
  EXPECT_NE(failure(changed("median = 0.02\n", "")).find("left_out.median: is missing, expected a number"),
            std::string::npos);
  EXPECT_EQ(failure(changed("median = 0.02\n", "")).find("is that meant"), std::string::npos);
  EXPECT_NE(failure(changed("folds = \"model\"", "folds = \"moon\"")).find("none of rows"), std::string::npos);
  EXPECT_NE(failure(changed("products = \"8-bit\"", "products = \"4-bit\"")).find("none of 16-bit, 8-bit"),
            std::string::npos);
  EXPECT_NE(
      failure(changed("weight_gathers = \"beside\"", "weight_gathers = \"late\"")).find("framework.weight_gathers"),
      std::string::npos);
  EXPECT_FALSE(parse_calibration(changed("weight_gathers = \"beside\"\n", ""), "c.toml").traits->gathers_weights_beside)
      << "as files were before there was this key";
  EXPECT_NE(failure(changed("tensor_overlap = ", "overlap = ")).find("framework.tensor_overlap"), std::string::npos);
  EXPECT_NE(failure(changed("median = 0.02", "median = 0.3")).find("ninth"), std::string::npos);
  EXPECT_NE(failure(changed("least_ratio = 0.9", "least_ratio = 1.9")).find("least_ratio"), std::string::npos);
  EXPECT_NE(failure(changed("memory = \\\"80GB\\\"", "memory = 3")).find("cluster.toml"), std::string::npos);
}

TEST(CalibrationFile, IsForItsDeviceAndPrecisionAlone) {
  const Cluster a100 = find_cluster("a100-80g");
  const Cluster fitted = calibrated(a100, some(), DType::f16);
  EXPECT_NE(fitted.name, a100.name);
  EXPECT_EQ(fitted.devices[0].matmul.back().top, some().constants[0]);
  EXPECT_EQ(fitted.devices[0].framework.traits, some().traits);
  EXPECT_THROW(calibrated(a100, some(), DType::bf16), Error);
  EXPECT_THROW(calibrated(find_cluster("h100"), some(), DType::f16), Error);
  Cluster faster = a100;
  for (auto& [dtype, rate] : faster.devices[0].peak) rate *= 1.1;
  EXPECT_THROW(calibrated(faster, some(), DType::f16), Error);
  EXPECT_THROW(calibrated(find_cluster("a100-40g"), some(), DType::f16), Error) << "the same chip, slower memory";
}

// A file may define device and node types that no [[nodes]] names.
TEST(CalibrationFile, DevicesThatNoGroupHoldsDoNotCount) {
  Cluster c = find_cluster("a100-80g");
  const Cluster v100 = find_cluster("v100");
  c.devices.insert(c.devices.begin(), v100.devices[0]), c.nodes.insert(c.nodes.begin(), v100.nodes[0]);
  c.devices[0].peak.erase(c.devices[0].peak.begin()), c.devices[0].matmul.erase(c.devices[0].matmul.begin());  // f16
  c.nodes[1].device = 1, c.groups[0].node = 1;
  const Cluster fitted = calibrated(c, some(), DType::f16);
  EXPECT_EQ(fitted.devices[1].matmul.back().top, some().constants[0]);
  EXPECT_EQ(fitted.devices[0].attention_forward, v100.devices[0].attention_forward);
  c.groups.push_back({0, 1});  // now one does
  EXPECT_THROW(calibrated(c, some(), DType::f16), Error);
}

TEST(CalibrationFile, ErrorBarHoldsThePrediction) {
  Calibration c = some();
  EXPECT_DOUBLE_EQ(error_bar(c, 10).low, 9);
  EXPECT_DOUBLE_EQ(error_bar(c, 10).high, 13);
  c.left_out.least_ratio = 1.1;  // all took longer
  EXPECT_DOUBLE_EQ(error_bar(c, 10).low, 10);
}

TEST(CalibrationFile, MutatedFilesAreReadOrRefused) {
  survive_mutations_of_sets({{calibration_toml(some())}},
                            [](const std::vector<std::string>& files) { parse_calibration(files[0], "mutated.toml"); });
}

}  // namespace
}  // namespace tern
