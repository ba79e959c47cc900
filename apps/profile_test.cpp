#include "apps/profile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "apps/profile_buffers.h"
#include "apps/profile_file.h"
#include "apps/rank_team.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "hardware/rates.h"
#include "plan/comm_cost.h"
#include "plan/cost_model.h"
#include "spec/presets.h"

namespace tern {
namespace {

// A machine whose products reach rate(m, n, k), the same in each of three rounds.
struct Fake {
  ProfileTasks tasks;
  std::vector<BenchResult> results;
  void add(const ProfileFigure& f, double rate, double low = 1, double high = 1) {
    tasks.add(f, {.unit = "FLOP/s"});
    results.push_back({.task = tasks.tasks.back(), .rates = {rate * low, rate, rate * high}});
  }
};
using Rate = double (*)(int64_t, int64_t, int64_t);
Fake fake_machine(Rate rate) {
  Fake f;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const ProductUse use : {ProductUse::any, ProductUse::input_gradient, ProductUse::weight_gradient})
      for (const int64_t m : {256, 2048})
        for (const int64_t n : {256, 2048})
          for (const int64_t k : {256, 2048}) f.add({FigureKind::product, dtype, use, m, n, k}, rate(m, n, k));
    f.add({FigureKind::product, dtype, ProductUse::head, 512, 32768, 512}, 80e9);
    f.add({FigureKind::product, dtype, ProductUse::inference, 1, 2048, 2048}, 5e9);
    // 20 · n / (n + 128) GFLOP/s; constant; falling with the length
    for (const int64_t head : {64, 128}) {
      f.add({.kind = FigureKind::attention_forward, .dtype = dtype, .m = kShortSequence, .n = head}, 10e9);
      f.add({.kind = FigureKind::attention_forward, .dtype = dtype, .m = kLongSequence, .n = head}, 20e9 * 1024 / 1152);
      for (const int64_t length : {kShortSequence, kLongSequence})
        f.add({.kind = FigureKind::attention_backward, .dtype = dtype, .m = length, .n = head},
              head == 64 ? 25e9 : 50e9);
      f.add({.kind = FigureKind::prefill, .dtype = dtype, .m = kShortSequence, .n = head}, 30e9);
      f.add({.kind = FigureKind::prefill, .dtype = dtype, .m = kLongSequence, .n = head}, 18e9);
      f.add({.kind = FigureKind::decode, .dtype = dtype, .m = kShortSequence, .n = head}, 3e9);  // 6 · n / (n + 128)
      f.add({.kind = FigureKind::decode, .dtype = dtype, .m = kLongSequence, .n = head}, 6e9 * 1024 / 1152);
    }
    f.add({.kind = FigureKind::elementwise, .dtype = dtype}, 8e9);
    f.add({.kind = FigureKind::update, .dtype = dtype}, 9e9);
    for (const int64_t mib : {4, 256}) {
      f.add({.kind = FigureKind::weight_read, .dtype = dtype, .m = mib << 20}, mib == 4 ? 60e9 : 15e9);
      if (dtype == DType::bf16)
        f.add({.kind = FigureKind::mapped_read, .dtype = dtype, .m = mib << 20}, mib == 4 ? 50e9 : 10e9);
    }
  }
  f.add({.kind = FigureKind::calls}, 1e6);
  f.add({.kind = FigureKind::sampling}, 700e6);
  f.add({.kind = FigureKind::memory_read}, 12e9);
  f.add({.kind = FigureKind::memory_copy}, 6e9);
  f.add({.kind = FigureKind::disk_read}, 2e9);
  f.add({.kind = FigureKind::disk_write}, 1e9);
  f.add({.kind = FigureKind::loopback}, 3e9);
  f.add({.kind = FigureKind::loopback_calls}, 2e5);
  return f;
}
ProfiledMachine machine() {
  return {.name = "CPU \"X\" \\ 1\n",
          .date = "2026-11-22",
          .tern = "0.1.0",
          .isa = "avx512",
          .threads = 2,
          .memory_bytes = int64_t{16} << 30,
          .reserved_bytes = int64_t{3} << 30,
          .disk_bytes = int64_t{100} << 30};
}
double rate_of(const DeviceType& d, DType dtype, int64_t m, int64_t n, int64_t k, ProductUse use) {
  return 2e12 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
         static_cast<double>(matmul_ps(d, dtype, m, n, k, use));
}

TEST(Profile, TheFileGivesBackTheRates) {
  const Fake f = fake_machine([](int64_t m, int64_t n, int64_t k) { return m + n + k > 2000 ? 100e9 : 40e9; });
  const Cluster c = parse_cluster(profile_toml(f.tasks, f.results, machine()), "this.toml");
  EXPECT_EQ(c.name, "CPU \"X\" \\ 1\\x0a, 2 threads");
  const Machine m = machine_of(c, 0);
  EXPECT_EQ(m.device.engine, "tern");
  EXPECT_EQ(m.device_capacity(), int64_t{13} << 30);
  EXPECT_EQ(m.host_capacity(), 0);  // it is the device's own memory
  EXPECT_EQ(m.disk_capacity(), int64_t{100} << 30);
  EXPECT_NEAR(peak_flops(m.device, DType::f32), 100e9, 1e6);
  for (const ProductUse use : {ProductUse::any, ProductUse::input_gradient, ProductUse::weight_gradient}) {
    EXPECT_NEAR(rate_of(m.device, DType::bf16, 256, 256, 256, use) / 40e9, 1, 1e-3);
    EXPECT_NEAR(rate_of(m.device, DType::bf16, 2048, 256, 2048, use) / 100e9, 1, 1e-3);
  }
  EXPECT_NEAR(rate_of(m.device, DType::f32, 4096, 32000, 288, ProductUse::head) / 80e9, 1, 1e-3);
  EXPECT_NEAR(rate_of(m.device, DType::f32, 1, 4096, 4096, ProductUse::inference) / 5e9, 1, 1e-3);
  const AttentionRates a = attention_rates(m.device, DType::bf16, 64);
  EXPECT_NEAR(a.forward, 0.2, 1e-4);
  EXPECT_NEAR(a.forward_half, 128, 0.2);
  EXPECT_NEAR(a.backward, 0.25, 1e-4);
  EXPECT_EQ(a.backward_half, 0);
  EXPECT_EQ(a.prefill_half, 0);
  EXPECT_NEAR(a.prefill, 0.18, 1e-4);
  EXPECT_NEAR(a.decode, 0.5, 1e-4);
  EXPECT_NEAR(a.decode_half, 128, 0.2);
  EXPECT_NEAR(m.device.sampling, 700e6, 1e5);
  EXPECT_NEAR(attention_rates(m.device, DType::bf16, 128).backward, 0.5, 1e-4);
  EXPECT_NEAR(attention_rates(m.device, DType::bf16, 96).backward, 96 / (64 / 0.25 / 2 + 128 / 0.5 / 2), 1e-4);
  EXPECT_NEAR(elementwise_rate(m.device, DType::f32), 8e9, 1e5);
  EXPECT_NEAR(update_rate(m.device, DType::bf16), 9e9, 1e5);
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_NEAR(read_rate(m.device, DType::bf16, 4 * kMiB, false), 60e9, 1e6);
  EXPECT_NEAR(read_rate(m.device, DType::bf16, 4 * kMiB, true), 50e9, 1e6);
  EXPECT_NEAR(read_rate(m.device, DType::bf16, 1024 * kMiB, true), 10e9, 1e6);
  EXPECT_NEAR(read_rate(m.device, DType::f32, 32 * kMiB, true), 2 / (1 / 60e9 + 1 / 15e9), 1e6);
  EXPECT_EQ(m.device.launch_ps, 1'000'000);
  EXPECT_EQ(m.node.link.latency_ps, 5'000'000);
  EXPECT_NEAR(m.node.disk_write, 1e9, 1e4);
  EXPECT_EQ(c.measured.size(), f.results.size());
  EXPECT_EQ(c.measured[0].name, "product f32 forward 256×256×256");
  EXPECT_EQ(c.measured[0].rounds, 3);
}

// Noise: a shape that seemed slower than one twice its size. A reader refuses such tables.
TEST(Profile, NoiseDoesNotMakeALargerProductFaster) {
  const Fake f = fake_machine([](int64_t m, int64_t n, int64_t k) { return m * n * k < 1 << 25 ? 1e9 : 100e9; });
  const Cluster c = parse_cluster(profile_toml(f.tasks, f.results, machine()), "this.toml");
  const DeviceType& d = c.devices[0];
  EXPECT_NEAR(rate_of(d, DType::f32, 256, 256, 256, ProductUse::any) / 1e9, 1, 1e-3);
  EXPECT_GE(matmul_ps(d, DType::f32, 2048, 256, 256), matmul_ps(d, DType::f32, 256, 256, 256));
}

TEST(Profile, SaysWhenTheMachineWasTooNoisy) {
  Fake quiet = fake_machine([](int64_t, int64_t, int64_t) { return 1e11; });
  EXPECT_EQ(describe(profile_noise(quiet.results)), "");
  for (size_t i = 0; i < quiet.results.size(); i += 5) quiet.results[i].rates = {1e9, 2e9, 3e9};
  const ProfileNoise noise = profile_noise(quiet.results);
  EXPECT_TRUE(noise.too_noisy());
  EXPECT_NE(describe(noise).find("product f32 forward 256×256×256, 50 %"), std::string::npos) << describe(noise);
  EXPECT_NE(profile_toml(quiet.tasks, quiet.results, machine()).find("too noisy"), std::string::npos);
  for (BenchResult& r : quiet.results) r.rates.resize(2);
  EXPECT_FALSE(profile_noise(quiet.results).too_noisy());
  EXPECT_NE(describe(profile_noise(quiet.results)).find("fewer than 3 rounds"), std::string::npos);
}

TEST(Profile, SaysWhenRanksShareCpus) {
  EXPECT_EQ(shared_cpus({.ranks = 4, .threads = 1, .cpus = 4}), "");
  EXPECT_EQ(shared_cpus({.ranks = 1, .threads = 4, .cpus = 2}), "");
  const std::string said = shared_cpus({.ranks = 4, .threads = 1, .cpus = 2});
  EXPECT_NE(said.find("4 ranks of 1 thread share 2 CPUs"), std::string::npos) << said;
  EXPECT_NE(said.find("at most 2 ranks"), std::string::npos) << said;
}

TEST(Profile, KnowsHowManyRanksComputeAtOnce) {
  EXPECT_EQ(ranks_at_once(4, 1, 0), 4);  // not known
  EXPECT_EQ(ranks_at_once(4, 1, 8), 4);
  EXPECT_EQ(ranks_at_once(4, 1, 2), 2);
  EXPECT_EQ(ranks_at_once(4, 2, 3), 1.5);
  EXPECT_EQ(ranks_at_once(4, 8, 4), 1);
  EXPECT_EQ(ranks_at_once(1, 4, 2), 1);
}

TEST(ProfileRanks, AsManyRanksAsHaveCpusWorkAndEachHasItsShareOfTheRate) {
  const auto team = std::make_shared<RankTeam>(4, 1, TeamLinks::memory);
  const auto rate = [&](double at_once, FigureKind kind, int expected_calls) {
    std::atomic<int> calls = 0;
    std::vector<BenchTask> tasks(4);
    for (int rank = 0; rank < 4; ++rank)
      tasks[static_cast<size_t>(rank)].once = [&calls, rank] {
        ++calls;
        return 10.0 * (rank + 1);
      };
    const double got = beside_each_other(team, tasks, at_once, kind).once();
    EXPECT_EQ(calls, expected_calls);
    return got;
  };
  EXPECT_DOUBLE_EQ(rate(4, FigureKind::product, 4), 25);
  EXPECT_DOUBLE_EQ(rate(2, FigureKind::product, 2), 15.0 * 2 / 4);
  EXPECT_DOUBLE_EQ(rate(1.5, FigureKind::product, 1), 10 * 1.5 / 4);
  EXPECT_DOUBLE_EQ(rate(1.5, FigureKind::memory_read, 1), 10 * 1.0 / 4);  // one rank had all of the memory's
}

// The planner takes each use's own rates: halving one alone makes its pass slower and leaves the others.
TEST(Profile, EachPassIsPricedByItsOwnProducts) {
  const auto facts = [](ProductUse slow) {
    Fake f = fake_machine([](int64_t, int64_t, int64_t) { return 100e9; });
    for (size_t i = 0; i < f.results.size(); ++i)
      if (f.tasks.figures[i].use == slow && slow != ProductUse::any) f.results[i].rates = {1e10};
    const Cluster c = parse_cluster(profile_toml(f.tasks, f.results, machine()), "this.toml");
    const ModelSpec spec = *preset_model("llama-2-7b");
    const TrainJob job{.batch = 1, .seq = 2048, .dtype = DType::f32};
    const Machine m = machine_of(c, 0);
    return std::pair{LayerCosts(spec, job, m, {}, 1).units()[2], LayerCosts(spec, job, m, {}, 1).units().back()};
  };
  const auto [mlp, head] = facts(ProductUse::any);
  const auto [slow_input, head_1] = facts(ProductUse::input_gradient);
  const auto [slow_weight, head_2] = facts(ProductUse::weight_gradient);
  const auto [same, slow_head] = facts(ProductUse::head);
  EXPECT_EQ(slow_input.forward, mlp.forward);
  EXPECT_GT(slow_input.backward, 5 * mlp.backward);
  EXPECT_EQ(slow_input.weight, mlp.weight);
  EXPECT_EQ(slow_weight.backward, mlp.backward);
  EXPECT_GT(slow_weight.weight, 5 * mlp.weight);
  EXPECT_EQ(same.forward, mlp.forward);
  EXPECT_EQ(head_1.forward, head.forward);
  EXPECT_GT(slow_head.forward, 5 * head.forward);
}

// Numbers of either type in one room: none is zero, denormal or not a number whichever type reads it.
TEST(ProfileBuffers, ColdNumbersAreNormalInBothTypes) {
  ColdNumbers cold(1 << 16);
  for (int i = 0; i < 3; ++i) {
    for (const float x : cold.next<float>(5000)) ASSERT_TRUE(std::isnormal(x) && std::abs(x) < 1) << x;
    for (const bf16 x : cold.next<bf16>(5000)) ASSERT_TRUE(std::isnormal(to_float(x)) && std::abs(to_float(x)) < 1);
  }
}

// Nothing is given twice before all of the room was passed through, whatever the types.
TEST(ProfileBuffers, ColdNumbersComeInTurn) {
  ColdNumbers cold(4 << 10);  // of 64 lines
  const float* first = cold.next<float>(16).data();
  const void* last = first;
  for (int lines = 1; lines < 63; lines += 2) {
    const bf16* next = cold.next<bf16>(40).data();  // 80 bytes: two lines
    EXPECT_GT(static_cast<const void*>(next), last);
    last = next;
  }
  EXPECT_EQ(cold.next<float>(17).data(), first);  // one line is left
}

TEST(Profile, TooLittleMemoryIsSaid) {
  EXPECT_THROW(profile_tasks({.quick = true, .memory_bytes = int64_t{64} << 20}), Error);
}

// The option is of all ranks together, and of the program too.
TEST(Profile, TheMemoryThatWouldDoIsThatOfAllRanks) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const auto offered = [](int ranks) {
    const ProfileSettings settings{.quick = true, .memory_bytes = 4 * kGiB, .ranks = ranks};
    const std::string words = memory_past_caches(settings, kGiB, kGiB, kGiB / 16);
    EXPECT_TRUE(words.starts_with("--memory ")) << words;
    return parse_bytes(words.substr(9, words.find(' ', 9) - 9), "the note");
  };
  EXPECT_GE(offered(1), 7 * kGiB) << "a gigabyte more is read, and the other buffers grow with the memory";
  EXPECT_GE(offered(4), 4 * 7 * kGiB);
  EXPECT_LT(offered(4), 4 * offered(1)) << "the program is there once";
  EXPECT_NE(memory_past_caches({.quick = true, .memory_bytes = 4 * kGiB}, kGiB, 2 * kGiB, 0).find("without --quick"),
            std::string::npos);
}

constexpr int64_t kMay = int64_t{2816} << 20, kSlack = int64_t{64} << 20;  // the least; code, stacks, results

// Buffers are made with the tasks and lie there as long. What a task takes besides while it runs are matrices, each of two of its sizes: of
// each kind, type and use those tasks take most in which a pair of sizes is largest; of these the shortest, that with the least third size.
std::vector<BenchTask> tasks_that_take_most(const ProfileTasks& all) {
  struct Most {
    int64_t pair = 0, third = 0;
    size_t task = 0;
  };
  std::map<std::tuple<FigureKind, DType, ProductUse, size_t>, Most> most;
  for (size_t i = 0; i < all.tasks.size(); ++i) {
    const ProfileFigure& f = all.figures[i];
    const int64_t sizes[] = {std::max<int64_t>(f.m, 1), std::max<int64_t>(f.n, 1), std::max<int64_t>(f.k, 1)};
    for (size_t without = 0; without < 3; ++without) {
      const int64_t third = sizes[without], pair = sizes[(without + 1) % 3] * sizes[(without + 2) % 3];
      Most& so_far = most[{f.kind, f.dtype, f.use, without}];
      if (pair > so_far.pair || (pair == so_far.pair && third < so_far.third)) so_far = {pair, third, i};
    }
  }
  std::set<size_t> chosen;
  for (const auto& [what, one] : most) chosen.insert(one.task);
  std::vector<BenchTask> tasks;
  for (const size_t i : chosen) tasks.push_back(all.tasks[i]);
  return tasks;
}

// What the process takes while figures are measured stays within what it may, where that is least.
TEST(ProfileSlow, MemoryIsKept) {
  const int64_t before = read_process_memory().resident_bytes;
  ASSERT_TRUE(reset_peak_resident());
  const ProfileTasks tasks = profile_tasks({.quick = false, .disk = "", .memory_bytes = kMay});
  for (const BenchTask& task : tasks_that_take_most(tasks)) task.once();
  const int64_t taken = read_process_memory().peak_resident_bytes - before;
  EXPECT_LE(taken, kMay + kSlack);
  EXPECT_GE(taken, kMay / 2);
}

// Where memory is short the grid is smaller, and whole: a table with holes is none.
TEST(ProfileSlow, TheLeastMemoryStillGivesWholeTables) {
  const ProfileTasks tasks = profile_tasks({.quick = false, .disk = "", .memory_bytes = kMay});
  std::vector<BenchResult> results;
  for (const BenchTask& task : tasks.tasks) results.push_back({.task = task, .rates = {1e9}});
  ProfiledMachine without_disk = machine();
  without_disk.disk_bytes = 0;
  const Cluster c = parse_cluster(profile_toml(tasks, results, without_disk), "this.toml");
  EXPECT_TRUE(has_table(c.devices[0], DType::f32, ProductUse::head));
}

TEST(ProfileSlow, EveryTaskHasARateAndLeavesNoFile) {
  const std::string directory = testing::TempDir() + "profile-disk";
  std::filesystem::create_directories(directory);
  const int64_t before = read_process_memory().resident_bytes;
  ASSERT_TRUE(reset_peak_resident());
  {
    const ProfileTasks tasks = profile_tasks({.quick = true, .disk = directory, .memory_bytes = kMay});
    ASSERT_EQ(tasks.tasks.size(), tasks.figures.size());
    EXPECT_GT(tasks.tasks.size(), 80u);
    const std::vector<BenchResult> results = run_rounds(tasks.tasks, 1, {});
    for (const BenchResult& r : results) EXPECT_TRUE(std::isfinite(r.rates[0]) && r.rates[0] > 0) << r.task.name;
    EXPECT_LE(read_process_memory().peak_resident_bytes - before, kMay + kSlack) << "every task was run";
    const Cluster c = parse_cluster(profile_toml(tasks, results, machine()), "this.toml");
    EXPECT_EQ(c.num_devices(), 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

// Ranks: a device each, with its share of the memory, and a link that gives collectives their time.
TEST(ProfileRanks, TheLinkGivesBackTheCollectivesItWasMadeOf) {
  constexpr int kRanks = 4;
  constexpr double kBandwidth = 5e9, kLatency = 20e-6;
  Fake f = fake_machine([](int64_t, int64_t, int64_t) { return 40e9; });
  for (const auto& [kind, steps, share] : {std::tuple{FigureKind::all_reduce, 2.0 * (kRanks - 1), 2.0},
                                           {FigureKind::all_gather, kRanks - 1.0, 1.0},
                                           {FigureKind::reduce_scatter, kRanks - 1.0, 1.0},
                                           {FigureKind::all_to_all, 1.0, 1.0}})
    for (const int64_t bytes : {4096, 65536, 1 << 20}) {
      const double sent = share * static_cast<double>(bytes) * (1 - 1.0 / kRanks);
      f.add({.kind = kind, .m = bytes}, static_cast<double>(bytes) / (steps * kLatency + sent / kBandwidth));
    }
  ProfiledMachine m = machine();
  m.ranks = m.cpus = kRanks, m.threads = 1;
  const Cluster c = parse_cluster(profile_toml(f.tasks, f.results, m), "test");
  EXPECT_EQ(c.num_devices(), kRanks);
  EXPECT_EQ(c.devices[0].memory_bytes, m.memory_bytes / kRanks);
  EXPECT_EQ(c.nodes[0].link.name, "ranks");
  EXPECT_NEAR(c.nodes[0].link.bandwidth, kBandwidth, 1e-3 * kBandwidth);
  EXPECT_NEAR(static_cast<double>(c.nodes[0].link.latency_ps) * 1e-12, kLatency, 1e-3 * kLatency);
  EXPECT_FALSE(shares_cores(c.nodes[0]));
  m.cpus = kRanks / 2;
  EXPECT_EQ(parse_cluster(profile_toml(f.tasks, f.results, m), "test").nodes[0].devices_at_once, kRanks / 2.0);
  m.cpus = 3, m.threads = 2;
  EXPECT_EQ(parse_cluster(profile_toml(f.tasks, f.results, m), "test").nodes[0].devices_at_once, 1.5);
  m.cpus = kRanks, m.threads = 1;
  const Machine planned = machine_of(c, 0);
  const double all_reduce = static_cast<double>(all_reduce_ps(planned, {kRanks, 1}, 1 << 20)) * 1e-12;
  EXPECT_NEAR(all_reduce, 6 * kLatency + 1.5 * (1 << 20) / kBandwidth, 1e-2 * all_reduce);
}

// Every rank does each piece of work, all of them before the next begins; a failure is the caller's.
void expect_works_together(TeamLinks links) {
  RankTeam team(3, 1, links);
  std::atomic<int> done = 0;
  for (int piece = 1; piece <= 20; ++piece) {
    team.run([&](Comm& comm) {
      EXPECT_EQ(num_compute_threads(), 1);
      comm.barrier();
      ++done;
    });
    EXPECT_EQ(done, 3 * piece);
  }
  EXPECT_THROW(team.run([](Comm& comm) {
    if (comm.rank() == 1) throw Error(ErrorKind::usage, "no");
    comm.barrier();
  }),
               Error);
}
TEST(ProfileRanks, ATeamWorksTogetherAgainAndAgain) { expect_works_together(TeamLinks::memory); }
TEST(ProfileRanks, ATeamOverTcpDoesTheSame) { expect_works_together(TeamLinks::tcp); }

}  // namespace
}  // namespace tern
