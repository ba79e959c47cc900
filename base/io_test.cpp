#include "base/io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/mapped_file.h"
#include "base/memory_io.h"

namespace tern {
namespace {

TEST(FreeBytes, OfAPathThatIsNotThereYetAreThoseOfItsDisk) {
  const auto there = real_io().free_bytes(testing::TempDir());
  const auto below = real_io().free_bytes(testing::TempDir() + "none/of/these");
  ASSERT_TRUE(there && below);
  EXPECT_GT(*there, 0);
  MemoryIo disk;
  EXPECT_FALSE(disk.free_bytes("run"));
  disk.capacity_bytes = 1000;
  disk.create("a")->append(std::string(300, 'x'));
  EXPECT_EQ(disk.free_bytes("run"), 700);
  FaultIo through(disk);
  EXPECT_EQ(through.free_bytes("run"), 700);
}

class RealIoTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tern-io-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { remove_all(real_io(), dir_); }
  std::string in(std::string_view name) const { return join_path(dir_, name); }
  std::string dir_;
};

std::string message_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "(no error)";
}

TEST_F(RealIoTest, ReplacesNoPipeOrDevice) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  const std::string message =
      message_of([&] { write_file_atomically(real_io(), in("pipe"), std::string_view("x")); }, ErrorKind::bad_file);
  EXPECT_NE(message.find("a device or a pipe"), std::string::npos) << message;
  EXPECT_EQ(real_io().list(dir_), std::vector<std::string>{"pipe"}) << "and nothing is left beside it";
}

TEST_F(RealIoTest, WritesReadsListsAndRemoves) {
  Io& io = real_io();
  EXPECT_TRUE(io.make_dir(in("d")));
  EXPECT_FALSE(io.make_dir(in("d")));
  const auto file = io.create(in("d/f"));
  file->append("hello ");
  file->append("world");
  file->write_at(0, std::as_bytes(std::span(std::string_view("J"))));
  EXPECT_EQ(file->size(), 11);
  file->sync();
  file->close();
  EXPECT_EQ(io.read(in("d/f")), "Jello world");
  io.truncate(in("d/f"), 5);
  io.open_append(in("d/f"))->append("!");
  EXPECT_EQ(io.read(in("d/f")), "Jello!");
  EXPECT_EQ(io.stat(in("d/f"))->size_bytes, 6);
  EXPECT_TRUE(io.stat(in("d"))->is_directory);
  EXPECT_FALSE(io.stat(in("nothing")).has_value());
  EXPECT_FALSE(io.stat(in("d/f/below a file")).has_value());
  io.create(in("d/e"));
  EXPECT_EQ(io.list(in("d")), (std::vector<std::string>{"e", "f"}));
  io.rename(in("d/f"), in("d/e"));
  EXPECT_EQ(io.read(in("d/e")), "Jello!");
  io.remove(in("d/e"));
  io.sync_dir(in("d"));
  EXPECT_TRUE(io.list(in("d")).empty());
}

TEST_F(RealIoTest, ErrorsSayPathReasonAndRemedy) {
  EXPECT_EQ(message_of([&] { real_io().read(in("absent")); }, ErrorKind::bad_file),
            "cannot open " + in("absent") + ": No such file or directory; check the path");
  EXPECT_EQ(message_of([&] { throw_io_error("write", "x", ENOSPC); }, ErrorKind::does_not_fit),
            "cannot write x: No space left on device; free space on this disk, or choose another place");
  EXPECT_NE(message_of([&] { throw_io_error("create", "x", EACCES); }, ErrorKind::bad_file).find("permissions"),
            std::string::npos);
  EXPECT_NE(message_of([&] { throw_io_error("create", "x", EROFS); }, ErrorKind::bad_file).find("read-only"),
            std::string::npos);
  EXPECT_NE(message_of([&] { real_io().make_dir(in("a/b")); }, ErrorKind::bad_file).find("check the path"),
            std::string::npos);
  EXPECT_NE(message_of([&] { real_io().create(dir_); }, ErrorKind::bad_file).find("not a directory"),
            std::string::npos);
}

TEST_F(RealIoTest, AFullDiskIsReportedAsSuch) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const auto file = real_io().open_append("/dev/full");
  EXPECT_NE(message_of([&] { file->append("x"); }, ErrorKind::does_not_fit).find("No space left"), std::string::npos);
}

TEST_F(RealIoTest, OneLockPerFileAndItNamesTheHolder) {
  const auto held = real_io().lock(in("lock"));
  const std::string message = message_of([&] { real_io().lock(in("lock")); }, ErrorKind::usage);
  EXPECT_NE(message.find("process " + std::to_string(::getpid())), std::string::npos) << message;
  EXPECT_NE(message.find(dir_), std::string::npos) << message;
}

TEST_F(RealIoTest, ALockEndsWithItsHolder) {
  real_io().lock(in("lock"));
  EXPECT_NO_THROW(real_io().lock(in("lock")));
}

TEST_F(RealIoTest, AtomicWriteReplacesWholeAndLeavesNoTemporary) {
  write_file_atomically(real_io(), in("f"), "old");
  write_file_atomically(real_io(), in("f"), "new");
  EXPECT_EQ(real_io().read(in("f")), "new");
  EXPECT_EQ(real_io().list(dir_), std::vector<std::string>{"f"});
}

TEST_F(RealIoTest, SavingOverAMappedFileKeepsTheMapping) {
  write_file_atomically(real_io(), in("f"), "weights");
  const MappedFile mapped(in("f"));
  write_file_atomically(real_io(), in("f"), "other..");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.size()), "weights");
}

TEST_F(RealIoTest, MakeDirsMakesEveryLevelAndRemoveAllRemovesThem) {
  make_dirs(real_io(), in("a/b/c"));
  make_dirs(real_io(), in("a/b/c"));
  EXPECT_TRUE(real_io().stat(in("a/b/c"))->is_directory);
  real_io().create(in("a/b/f"));
  remove_all(real_io(), in("a"));
  EXPECT_FALSE(real_io().stat(in("a")).has_value());
  remove_all(real_io(), in("a"));
}

TEST_F(RealIoTest, RemoveAllDoesNotFollowLinks) {
  make_dirs(real_io(), in("precious"));
  real_io().create(in("precious/f"));
  make_dirs(real_io(), in("run"));
  ASSERT_EQ(::symlink(in("precious").c_str(), in("run/link").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", in("run/dangling").c_str()), 0);
  remove_all(real_io(), in("run"));
  EXPECT_FALSE(real_io().stat(in("run")).has_value());
  EXPECT_TRUE(real_io().stat(in("precious/f")).has_value());
}

TEST(Paths, JoinAndSplit) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(file_name("a/b/"), "b");
  EXPECT_EQ(file_name("b"), "b");
}

TEST_F(RealIoTest, MappedFileRefusesDirectoriesAndMapsEmptyFiles) {
  EXPECT_NE(message_of([&] { MappedFile f(dir_); }, ErrorKind::bad_file).find("is a directory"), std::string::npos);
  EXPECT_NE(message_of([&] { MappedFile f(in("absent")); }, ErrorKind::bad_file).find("No such file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { MappedFile f("/dev/null"); }, ErrorKind::bad_file).find("no regular file"),
            std::string::npos);
  real_io().create(in("empty"));
  EXPECT_TRUE(MappedFile(in("empty")).bytes().empty());
  write_file_atomically(real_io(), in("f"), "abc");
  MappedFile a(in("f"));
  a.advise(MappedFile::Advice::sequential, 0, 100);
  MappedFile b(std::move(a));
  EXPECT_EQ(b.size(), 3u);
  EXPECT_EQ(a.size(), 0u);
}

// --- faults ---

// What every atomic write must satisfy: whatever fails, the file is the old one or the new one.
TEST(FaultIo, AnAtomicWriteIsOldOrNewUnderEveryFault) {
  int64_t num_operations = 0;
  {
    MemoryIo disk;
    FaultIo counter(disk);
    write_file_atomically(counter, "f", "old");
    num_operations = counter.num_operations();
  }
  ASSERT_EQ(num_operations, 5) << "create, append, sync, rename, sync of the directory";
  for (int64_t at = 0; at < num_operations; ++at)
    for (const FaultKind kind : {FaultKind::kill_before, FaultKind::kill_after, FaultKind::short_write,
                                 FaultKind::no_space, FaultKind::io_error, FaultKind::sync_error}) {
      MemoryIo disk;
      write_file_atomically(disk, "f", "old content");
      FaultIo io(disk, {.at = at, .kind = kind});
      bool failed = false;
      try {
        write_file_atomically(io, "f", "new content");
      } catch (const Error& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("cannot "), std::string::npos);
      } catch (const SimulatedKill&) { failed = true; }
      EXPECT_TRUE(failed) << at << " " << static_cast<int>(kind);
      EXPECT_TRUE(io.fault_happened());
      const std::string now = disk.read("f");
      EXPECT_TRUE(now == "old content" || now == "new content") << now;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::string later = disk.state_after_crash(seed)->read("f");
        EXPECT_TRUE(later == "old content" || later == "new content") << later;
      }
      if (kind != FaultKind::kill_before && kind != FaultKind::kill_after) {
        EXPECT_EQ(disk.list("."), std::vector<std::string>{"f"}) << "no temporary is left after an error";
      }
    }
}

TEST(FaultIo, AShortWriteLeavesHalf) {
  MemoryIo disk;
  FaultIo io(disk, {.at = 1, .kind = FaultKind::short_write});
  const auto file = io.create("f");
  EXPECT_THROW(file->append("12345678"), Error);
  EXPECT_EQ(disk.read("f"), "1234");
}

TEST(FaultIo, TheDeadDoNothing) {
  MemoryIo disk;
  FaultIo io(disk, {.at = 0, .kind = FaultKind::kill_after});
  EXPECT_THROW(io.create("f"), SimulatedKill);
  EXPECT_TRUE(disk.stat("f").has_value());
  EXPECT_THROW(io.make_dir("d"), SimulatedKill);
  EXPECT_FALSE(disk.stat("d").has_value());
  EXPECT_EQ(io.num_operations(), 1);
}

// --- the simulated disk ---

TEST(MemoryIo, BehavesLikeAFileSystemWhileItRuns) {
  MemoryIo io;
  make_dirs(io, "run/a");
  io.create("run/a/f")->append("hello");
  EXPECT_EQ(io.read("run/a/f"), "hello");
  io.rename("run/a/f", "run/g");
  EXPECT_FALSE(io.stat("run/a/f").has_value());
  EXPECT_EQ(io.read("run/g"), "hello");
  io.truncate("run/g", 2);
  io.open_append("run/g")->append("y");
  EXPECT_EQ(io.read("run/g"), "hey");
  io.create("run/a/x");
  make_dirs(io, "run/b");
  EXPECT_NE(message_of([&] { io.rename("run/b", "run/a"); }, ErrorKind::bad_file).find("not empty"), std::string::npos);
  EXPECT_THROW(io.remove("run/a"), Error);
  EXPECT_THROW(io.create("absent/f"), Error);
  EXPECT_THROW(io.create("run/a"), Error);
  EXPECT_THROW(io.read("run/a"), Error);
  EXPECT_EQ(io.list("run"), (std::vector<std::string>{"a", "b", "g"}));
  const auto lock = io.lock("run/lock");
  EXPECT_THROW(io.lock("run/lock"), Error);
}

TEST(MemoryIo, AFullDiskRefuses) {
  MemoryIo io;
  io.capacity_bytes = 10;
  const auto file = io.create("f");
  file->append("123456789");
  EXPECT_NE(message_of([&] { file->append("xx"); }, ErrorKind::does_not_fit).find("No space"), std::string::npos);
  file->append("0");
}

// Counts which outcomes a crash can have; a disk that never loses anything would prove nothing.
std::set<std::string> states_of(const MemoryIo& io, const std::string& path) {
  std::set<std::string> states;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto disk = io.state_after_crash(seed);
    states.insert(disk->stat(path) ? "[" + disk->read(path) + "]" : "absent");
  }
  return states;
}

TEST(MemoryIo, ACrashKeepsWhatWasSynced) {
  MemoryIo io;
  const auto file = io.create("f");
  file->append("abc");
  file->sync();
  io.sync_dir(".");
  EXPECT_EQ(states_of(io, "f"), std::set<std::string>{"[abc]"});
}

TEST(MemoryIo, ACrashMayLoseTheNameOfASyncedFile) {
  MemoryIo io;
  const auto file = io.create("f");
  file->append("abc");
  file->sync();
  EXPECT_EQ(states_of(io, "f"), (std::set<std::string>{"absent", "[abc]"}));
}

TEST(MemoryIo, ACrashMayTearDropAndReorderUnsyncedWrites) {
  MemoryIo io;
  const auto file = io.create("f");
  io.sync_dir(".");
  file->append("ab");
  file->append("cd");
  const auto states = states_of(io, "f");
  for (const char* want : {"[]", "[ab]", "[abcd]", "[a]", "[abc]"}) EXPECT_TRUE(states.contains(want)) << want;
  EXPECT_TRUE(states.contains(std::string("[\0\0cd]", 6))) << "the second write alone leaves zeros before it";
}

TEST(MemoryIo, ARenameInsideADirectoryIsAtomic) {
  MemoryIo io;
  write_file_atomically(io, "f", "old");
  const auto file = io.create("tmp");
  file->append("new");
  file->sync();
  io.sync_dir(".");
  io.rename("tmp", "f");
  EXPECT_EQ(states_of(io, "f"), (std::set<std::string>{"[old]", "[new]"}));
}

TEST(MemoryIo, RenameWithoutSyncOfTheFileIsNotSafe) {
  MemoryIo io;
  write_file_atomically(io, "f", "old");
  io.create("tmp")->append("new");  // the classic mistake: no sync before the rename
  io.rename("tmp", "f");
  EXPECT_TRUE(states_of(io, "f").contains("[]"));
}

TEST(MemoryIo, ARenameAcrossDirectoriesMayBeSeenInBothOrNone) {
  MemoryIo io;
  make_dirs(io, "a");
  make_dirs(io, "b");
  write_file_atomically(io, "a/f", "x");
  io.rename("a/f", "b/f");
  std::set<std::pair<bool, bool>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto disk = io.state_after_crash(seed);
    seen.insert({disk->stat("a/f").has_value(), disk->stat("b/f").has_value()});
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(MemoryIo, EqualSeedsGiveEqualStates) {
  MemoryIo io;
  for (int i = 0; i < 10; ++i) io.create("f" + std::to_string(i))->append("some text");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto a = io.state_after_crash(seed), b = io.state_after_crash(seed);
    ASSERT_EQ(a->list("."), b->list("."));
    for (const std::string& name : a->list(".")) EXPECT_EQ(a->read(name), b->read(name));
  }
}

// 5,000 crashes of an atomic write over an old file.
TEST(MemoryIo, AtomicWritesSurviveFiveThousandCrashes) {
  int old_states = 0, new_states = 0;
  for (int64_t at = 0; at < 5; ++at)
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      MemoryIo disk;
      write_file_atomically(disk, "f", "old content");
      FaultIo io(disk, {.at = at, .kind = FaultKind::kill_after});
      try {
        write_file_atomically(io, "f", "new content");
      } catch (const SimulatedKill&) {}
      const std::string text = disk.state_after_crash(seed)->read("f");
      if (text == "old content")
        ++old_states;
      else if (text == "new content")
        ++new_states;
      else
        FAIL() << "operation " << at << ", seed " << seed << ": " << text;
    }
  EXPECT_GT(old_states, 3000);
  EXPECT_GT(new_states, 1000);
}

}  // namespace
}  // namespace tern
