#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {
namespace {

std::string logged;
void keep(LogLevel, const std::string& message) { logged += message + "|"; }

TEST(Log, TellsFromItsLevelOnAndWritesJsonLines) {
  const std::string path = testing::TempDir() + "tern-log-" + std::to_string(::getpid());
  set_log_sink(keep);
  set_log_file(path);
  log_info("a {}", 1);
  log_debug("hidden");
  set_log_level(LogLevel::warn);
  log_info("hidden");
  log_warn("b \"{}\"", 2);
  set_log_level(LogLevel::info);
  set_log_file("");
  set_log_sink(nullptr);
  EXPECT_EQ(logged, "a 1|b \"2\"|");
  const std::string text = real_io().read(path);
  EXPECT_NE(text.find("\"level\":\"warn\",\"message\":\"b \\\"2\\\"\"}\n"), std::string::npos) << text;
  EXPECT_EQ(split(text, '\n').size(), 3u) << text;
  real_io().remove(path);
  EXPECT_THROW(log_level_from_name("wran"), Error);
}

}  // namespace
}  // namespace tern
