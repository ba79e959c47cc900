#include "base/publish.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/mapped_file.h"
#include "base/memory_io.h"

namespace tern {
namespace {

void publish_file(Io& io, const std::string& text) {
  OutputFile output(io, "d/f");
  output.append(text.substr(0, text.size() / 2));
  output.append(text.substr(text.size() / 2));
  output.publish();
}

void publish_directory(Io& io) {
  OutputDirectory output(io, "d/new/");
  write_file_atomically(io, output.temporary() + "/a", std::string_view("first"));
  write_file_atomically(io, output.temporary() + "/b", std::string_view("second"));
  output.publish();
}

// `work` under every kind of fault at every operation, then once more undisturbed: all the while `is_whole`, and at the
// end the names of the undisturbed run.
template <class Work, class IsWhole>
void survive_everything(const Work& work, const IsWhole& is_whole, const std::vector<std::string>& names) {
  MemoryIo quiet;
  quiet.make_dir("d");
  FaultIo counting(quiet);
  work(counting);
  ASSERT_GE(counting.num_operations(), 5);
  int faults = 0;
  for (const FaultKind kind : {FaultKind::kill_before, FaultKind::kill_after, FaultKind::short_write,
                               FaultKind::no_space, FaultKind::io_error, FaultKind::sync_error})
    for (int64_t at = 0; at < counting.num_operations(); ++at) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " at " << at);
      MemoryIo disk;
      disk.make_dir("d");
      FaultIo faulty(disk, {.at = at, .kind = kind});
      bool died = false;
      try {
        work(faulty);
      } catch (const Error&) {
      } catch (const SimulatedKill&) { died = true; }
      faults += faulty.fault_happened();
      EXPECT_TRUE(is_whole(disk));
      if (!died && kind != FaultKind::sync_error) {
        for (const std::string& name : disk.list("d")) EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
      }
      try {
        work(disk);
      } catch (const Error& e) {  // a directory that came to its place just before the fault stays
        EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
      }
      EXPECT_TRUE(is_whole(disk));
      EXPECT_EQ(disk.list("d"), names);
    }
  EXPECT_GT(faults, 20);
}

TEST(Publish, AFileIsOldOrWholeUnderEveryFaultAndNothingIsLeft) {
  survive_everything([](Io& io) { publish_file(io, "0123456789"); },
                     [](Io& io) { return !io.stat("d/f") || io.read("d/f") == "0123456789"; }, {"f"});
}

TEST(Publish, ADirectoryIsAbsentOrWholeUnderEveryFaultAndNothingIsLeft) {
  survive_everything([](Io& io) { publish_directory(io); },
                     [](Io& io) {
                       return !io.stat("d/new") || (io.read("d/new/a") == "first" && io.read("d/new/b") == "second" &&
                                                    io.list("d/new").size() == 2);
                     },
                     {"new"});
}

TEST(Publish, SweepsWhatTheDeadLeftAndNothingElse) {
  MemoryIo io;
  io.make_dir("d");
  OutputFile living(io, "d/f");
  OutputDirectory also_living(io, "d/new");
  for (const char* name : {"f.tmp-1-0a", "f.tmp-1-0z", "f.tmp-old", "f.tmp-", "g.tmp-1-0a", "f.tmp-1-0a.txt"})
    io.create(std::string("d/") + name);
  io.make_dir("d/new.tmp-7-ff");
  io.create("d/new.tmp-7-ff/part");
  publish_file(io, "mine");
  publish_directory(io);
  const std::vector<std::string> left = io.list("d");
  const auto is_there = [&](const std::string& path) { return io.stat(path).has_value(); };
  EXPECT_FALSE(is_there("d/f.tmp-1-0a"));
  EXPECT_FALSE(is_there("d/new.tmp-7-ff"));
  for (const char* name : {"f.tmp-1-0z", "f.tmp-old", "f.tmp-", "g.tmp-1-0a", "f.tmp-1-0a.txt"})
    EXPECT_TRUE(is_there(std::string("d/") + name)) << name;
  living.append("theirs");
  living.publish();
  EXPECT_EQ(io.read("d/f"), "theirs") << "a writer that lives kept its file";
  EXPECT_THROW(also_living.publish(), Error) << "the other directory stays";
  EXPECT_EQ(io.read("d/new/a"), "first");
}

class RealPublish : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tern-publish-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { remove_all(real_io(), dir_); }
  std::string in(std::string_view name) const { return join_path(dir_, name); }
  std::string dir_;
};

TEST_F(RealPublish, WritersAtOnceLeaveOneWholeFile) {
  const std::string a(300'000, 'a'), b(200'000, 'b');
  for (int round = 0; round < 200; ++round) {
    const auto write = [&](const std::string& text) {
      OutputFile output(real_io(), in("f"));
      for (size_t at = 0; at < text.size(); at += 50'000) output.append(text.substr(at, 50'000));
      output.publish();
    };
    std::thread other([&] { write(a); });
    write(round % 2 == 0 ? a : b);
    other.join();
    const std::string found = real_io().read(in("f"));
    ASSERT_TRUE(found == a || (found == b && round % 2 == 1)) << "round " << round << ": " << found.size() << " bytes";
    ASSERT_EQ(real_io().list(dir_), std::vector<std::string>{"f"}) << "round " << round;
  }
}

TEST_F(RealPublish, OfTwoDirectoriesAtOnceOneWins) {
  for (int round = 0; round < 50; ++round) {
    const std::string target = in("r" + std::to_string(round));
    if (round % 2 == 0) real_io().make_dir(target);  // an empty one that is there is as good as none
    std::atomic<int> won = 0, refused = 0;
    const auto write = [&](char letter) {
      try {
        OutputDirectory output(real_io(), target);
        for (const char* name : {"/x", "/y"})
          write_file_atomically(real_io(), output.temporary() + name, std::string(1000, letter));
        output.publish();
        ++won;
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
        ++refused;
      }
    };
    std::thread other([&] { write('a'); });
    write('b');
    other.join();
    ASSERT_EQ(won, 1);
    ASSERT_EQ(refused, 1);
    ASSERT_EQ(real_io().list(target), (std::vector<std::string>{"x", "y"}));
    ASSERT_EQ(real_io().read(target + "/x"), real_io().read(target + "/y"));
  }
  for (const std::string& name : real_io().list(dir_)) EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
}

TEST_F(RealPublish, FollowsNoLinkAndReplacesNoPipe) {
  write_file_atomically(real_io(), in("precious"), std::string_view("keep"));
  ASSERT_EQ(::symlink(in("precious").c_str(), in("link").c_str()), 0);
  write_file_atomically(real_io(), in("link"), std::string_view("new"));
  EXPECT_EQ(real_io().read(in("precious")), "keep");
  EXPECT_FALSE(real_io().stat(in("link"))->is_symlink);
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  EXPECT_THROW(OutputFile(real_io(), in("pipe")), Error);
  ASSERT_EQ(::symlink(in("precious").c_str(), in("lock").c_str()), 0);
  EXPECT_THROW(real_io().lock(in("lock")), Error);
  EXPECT_EQ(real_io().read(in("precious")), "keep");
}

TEST_F(RealPublish, APipeNobodyWritesToDoesNotHang) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  EXPECT_THROW(real_io().read(in("pipe")), Error);
  EXPECT_THROW(MappedFile(in("pipe")), Error);
  EXPECT_TRUE(real_io().stat(in("pipe"))->is_special);
}

}  // namespace
}  // namespace tern
