#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/source_dir_testing.h"

namespace tern {
namespace {

std::string golden(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/golden/report/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// The rows dev/report/tensorboard_golden.py wrote with the tensorboard package.
std::vector<ScalarEvent> golden_events() {
  return {{0, 1700000000.5, {{"train/loss", 4.25f}}},
          {1, 1700000001.5, {{"train/loss", 3.5f}, {"train/lr", 0.001f}}},
          {300, 1700000002.25, {{"eval/loss", -0.0f}, {"perf/tokens_per_s", 12345.678f}}},
          {5000000000, 1700000003, {{"grüße/loss", 1e-30f}}}};
}

TEST(TensorBoard, WritesTheBytesOfTheReferencePackage) {
  std::string ours = event_file_header(1700000000.0);
  for (const ScalarEvent& event : golden_events()) ours += event_scalars(event);
  EXPECT_EQ(ours, golden("events.golden"));
}

TEST(TensorBoard, ReadsTheReferencePackagesFile) {
  const EventFile file = parse_events(golden("events.golden"), "golden");
  EXPECT_EQ(file.start_time_s, 1700000000.0);
  EXPECT_FALSE(file.torn);
  const std::vector<ScalarEvent> want = golden_events();
  ASSERT_EQ(file.events.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(file.events[i].step, want[i].step);
    EXPECT_EQ(file.events[i].time_s, want[i].time_s);
    EXPECT_EQ(file.events[i].values, want[i].values);
  }
}

TEST(TensorBoard, MasksTheCrcOfTheStandardCheckString) {
  // CRC32C("123456789") = 0xE3069283 (RFC 3720's polynomial); rotated right by 15, plus the constant.
  EXPECT_EQ(masked_crc32c("123456789"), ((0xE3069283u >> 15) | (0xE3069283u << 17)) + 0xA282EAD8u);
}

TEST(TensorBoard, NoticesEveryFlippedBit) {
  std::string bytes = event_file_header(1);
  for (const ScalarEvent& event : golden_events()) bytes += event_scalars(event);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string broken = bytes;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(parse_events(broken, "broken"), Error) << "bit " << bit;
  }
}

TEST(TensorBoard, TakesAnyCutForATornTail) {
  const std::string head = event_file_header(1), record = event_scalars(golden_events()[1]);
  for (size_t cut = 0; cut <= record.size(); ++cut) {
    const EventFile file = parse_events(head + record.substr(0, cut), "cut");
    EXPECT_EQ(file.torn, cut != 0 && cut != record.size()) << cut;
    EXPECT_EQ(file.events.size(), cut == record.size() ? 1u : 0u) << cut;
  }
}

TEST(TensorBoard, RefusesMessagesOfAnotherShape) {
  const auto file = [](std::string_view payload) { return event_file_header(1) + event_record(payload); };
  for (const std::string_view payload :
       {std::string_view("\x2A\x05\x0A\x7F", 4), std::string_view("\x10", 1), std::string_view("\x0B", 1),
        std::string_view("\x10\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12),
        std::string_view("\x2A\x05\x0A\x03\x0A\x01x", 7)})
    EXPECT_THROW(parse_events(file(payload), "shape"), Error);
  EXPECT_THROW(parse_events(event_record("\x10\x01"), "no version"), Error);
}

}  // namespace
}  // namespace tern
