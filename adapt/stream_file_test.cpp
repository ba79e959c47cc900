#include "adapt/stream_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "base/error.h"
#include "base/io.h"

namespace tern {
namespace {

class StreamFile : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    write("text.txt", "some text");
    write("empty.txt", "");
  }
  void TearDown() override { remove_all(real_io(), root_); }
  void write(const std::string& name, std::string_view text) { write_file_atomically(real_io(), path(name), text); }
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  // Of a second task with these lines.
  std::string refusal(const std::string& lines) {
    write("tasks.toml",
          "[[task]]\nname = \"a\"\ndata = \"text.txt\"\ntest = \"text.txt\"\n[[task]]\nname = \"b\"\n" + lines);
    try {
      read_stream_file(path("tasks.toml"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
    return "taken";
  }

 private:
  std::string root_ = testing::TempDir() + "tern-tasks-XXXXXX";
};

TEST_F(StreamFile, NamesTheLineOfAFileThatIsNotThereOrEmpty) {
  EXPECT_EQ(refusal("data = \"text.txt\"\ntest = \"text.txt\"\n"), "taken");
  const std::string tasks = path("tasks.toml");
  EXPECT_EQ(refusal("data = \"none.txt\"\ntest = \"text.txt\"\n")
                .find(tasks + ":7: task.data: " + path("none.txt") + " is not there"),
            0u);
  EXPECT_EQ(refusal("data = \"text.txt\"\n\ntest = \"none.txt\"\n")
                .find(tasks + ":9: task.test: " + path("none.txt") + " is not there"),
            0u);
  EXPECT_EQ(refusal("data = \"text.txt\"\ntest = \"empty.txt\"\n")
                .find(tasks + ":8: task.test: " + path("empty.txt") + " is empty"),
            0u);
}

}  // namespace
}  // namespace tern
