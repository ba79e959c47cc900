// Folders and mixtures: which files they name, and what is refused.
#include "formats/data/mixture.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "formats/data/data_files.h"

namespace tern {
namespace {

class DataSources : public testing::Test {
 protected:
  DataSources() {
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    make_dirs(real_io(), root_ + "/books/deep/.git");
    for (const char* name : {"b.txt", "a.md", "deep/c.jsonl", "deep/.git/d.txt", "e.bin", ".hidden.txt"})
      write_file_atomically(real_io(), root_ + "/books/" + name, "text");
    std::filesystem::create_symlink(root_, root_ + "/books/loop");
  }
  ~DataSources() override { remove_all(real_io(), root_); }
  std::string refusal(const std::string& toml) {
    write_file_atomically(real_io(), root_ + "/mix.toml", toml);
    try {
      data_sources(root_ + "/mix.toml");
      return "taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
  }
  std::string root_ = testing::TempDir() + "tern-sources-XXXXXX";
};

TEST_F(DataSources, AFolderIsItsTextsInTheOrderOfTheirPaths) {
  EXPECT_EQ(data_files(root_ + "/books"),
            (std::vector<std::string>{root_ + "/books/a.md", root_ + "/books/b.txt", root_ + "/books/deep/c.jsonl"}));
  EXPECT_EQ(data_files(root_ + "/books/e.bin"), std::vector<std::string>{root_ + "/books/e.bin"});
  EXPECT_THROW(data_files(root_ + "/nowhere"), Error);
  EXPECT_THROW(data_files(root_ + "/books/deep/.git/nothing"), Error);
  make_dirs(real_io(), root_ + "/empty");
  EXPECT_THROW(data_files(root_ + "/empty"), Error);
}

TEST_F(DataSources, AMixtureSaysSharesByTheirRatios) {
  write_file_atomically(real_io(), root_ + "/mix.toml",
                        "[[source]]\ndata = \"books\"\nshare = 3\n[[source]]\ndata = \"/other.txt\"\n");
  const std::vector<DataSource> sources = data_sources(root_ + "/mix.toml");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].path, root_ + "/books");
  EXPECT_EQ(sources[1].path, "/other.txt");
  EXPECT_DOUBLE_EQ(sources[0].share, 0.75);
  EXPECT_DOUBLE_EQ(sources[1].share, 0.25);
  EXPECT_EQ(data_sources("plain.txt").size(), 1u);
}

TEST_F(DataSources, WhatIsWrongWithAMixtureIsNamed) {
  EXPECT_NE(refusal("").find("source"), std::string::npos);
  EXPECT_NE(refusal("source = []").find("no [[source]]"), std::string::npos);
  EXPECT_NE(refusal("source = [1]").find("expected tables"), std::string::npos);
  EXPECT_NE(refusal("[[source]]\nshare = 1").find("data"), std::string::npos);
  EXPECT_NE(refusal("[[source]]\ndata = \"a\"\nshare = 0").find("expected a number above 0"), std::string::npos);
  EXPECT_NE(refusal("[[source]]\ndata = \"a\"\nshare = -1").find("share"), std::string::npos);
  EXPECT_NE(refusal("[[source]]\ndata = \"b.toml\"").find("is a mixture itself"), std::string::npos);
  EXPECT_NE(refusal("[[source]]\ndata = \"a\"\nshar = 1").find("shar"), std::string::npos);
}

}  // namespace
}  // namespace tern
