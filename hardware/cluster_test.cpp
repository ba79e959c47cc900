#include "hardware/cluster.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "hardware/rates.h"

namespace tern {
namespace {

const std::string kFolder = source_dir() + "/examples/hardware/";

std::string message_of(const std::string& toml) {
  try {
    parse_cluster(toml, "c.toml");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    return e.what();
  }
  return "";
}

std::string node_file() { return real_io().read(kFolder + "h100-node.toml"); }

TEST(Cluster, ExamplesRead) {
  const Cluster node = read_cluster(kFolder + "h100-node.toml");
  EXPECT_EQ(node.num_devices(), 8);
  const Cluster big = read_cluster(kFolder + "h100-16384.toml");
  EXPECT_EQ(big.num_devices(), 16384);
  const Cluster desk = read_cluster(kFolder + "mixed-desk.toml");
  EXPECT_EQ(desk.num_devices(), 3);
  EXPECT_EQ(desk.devices.size(), 2u);
}

TEST(Cluster, EveryFigureOfAnExampleSaysItsSource) {
  for (const char* name : {"h100-node.toml", "h100-16384.toml", "mixed-desk.toml"}) {
    const std::string file = real_io().read(kFolder + name);
    std::string table;
    for (const std::string_view line : split(file, '\n')) {
      if (line.starts_with("[")) table = line;
      const bool rate = line.find("/s\"") != std::string_view::npos || line.find("share = 0") == 0;
      if (rate) {
        EXPECT_TRUE(line.find('#') != std::string_view::npos || table.find('#') != std::string::npos)
            << name << ": " << line;
      }
    }
  }
}

TEST(Cluster, AMachineHasItsLevelsFromTheInsideOut) {
  const Machine m = machine_of(read_cluster(kFolder + "h100-16384.toml"), 0);
  ASSERT_EQ(m.levels.size(), 3u);
  EXPECT_EQ(m.levels[0].devices, 8);
  EXPECT_EQ(m.levels[1].devices, 3072);
  EXPECT_EQ(m.levels[2].devices, 16384);
  EXPECT_DOUBLE_EQ(m.levels[1].bandwidth, 400e9 * 0.85 / 8);
  EXPECT_DOUBLE_EQ(m.levels[2].bandwidth, 400e9 * 0.85 / 8 / 7);
  EXPECT_EQ(m.levels[0].latency_ps, 2'000'000);
  EXPECT_EQ(m.device_capacity(), 77'000'000'000);
  EXPECT_EQ(m.host_capacity(), 200'000'000'000);
}

TEST(Cluster, WrongFilesGetMessagesThatTeach) {
  const std::string good = node_file();
  ASSERT_EQ(message_of(good), "");
  const auto with = [&](std::string_view from, std::string_view to) {
    EXPECT_NE(good.find(from), std::string::npos) << from;
    return message_of(replace_all(good, from, to));
  };
  EXPECT_EQ(
      with("memory_share", "memory_shair"),
      "c.toml:5: device.h100.memory_share: is missing, expected a number; line 9 has 'memory_shair': is that meant?");
  EXPECT_EQ(with("memory_share = 0.88", ""), "c.toml:5: device.h100.memory_share: is missing, expected a number");
  EXPECT_NE(with("[device.h100", "[devices.h100").find("'devices': is that meant?"), std::string::npos);
  // The number of devices stands where the kind is asked for: not what is meant.
  EXPECT_EQ(with("device = \"h100\"", "").find("is that meant"), std::string::npos);
  EXPECT_EQ(with("launch = \"4us\"", "launch = \"4us\"\nprice = 3"),
            "c.toml:11: device.h100.price: is no key here; did you mean 'device.h100.price_per_hour'?");
  EXPECT_EQ(with("price_per_hour", "price_pr_hour"),
            "c.toml:11: device.h100.price_pr_hour: is no key here; did you mean 'device.h100.price_per_hour'?");
  EXPECT_NE(with("\"3.35TB/s\"", "\"3.35TB\"").find("'3.35TB' is no quantity in B/s"), std::string::npos);
  EXPECT_NE(with("\"3.35TB/s\"", "3.35").find("a number, expected a text"), std::string::npos);
  for (const auto& [from, to] : {std::pair{"\"3.35TB/s\"", "\"3.35B/s\""}, {"\"450GB/s\"", "\"450B/s\""}})
    EXPECT_NE(with(from, to).find("bandwidth: expected 1kB/s at least"), std::string::npos) << with(from, to);
  EXPECT_NE(with("\"989TFLOP/s\"", "\"989FLOP/s\"").find("peak.bf16: expected 1MFLOP/s at least"), std::string::npos);
  EXPECT_NE(with("launch = \"4us\"", "launch = \"4000s\"").find("launch: expected an hour at most"), std::string::npos);
  EXPECT_NE(with("memory_share = 0.88", "memory_share = 1.5").find("1.5, expected 0.01 to 1"), std::string::npos);
  EXPECT_NE(with("device = \"h100\"", "device = \"h10\"").find("'h10' is not defined; did you mean 'h100'?"),
            std::string::npos);
  EXPECT_NE(with("count = 1", "count = 2").find("joins 1 nodes, there are 2"), std::string::npos);
  EXPECT_NE(with("version = 1", "version = 2").find("2, this tern reads 1"), std::string::npos);
  EXPECT_NE(with("rows = [64, 256", "rows = [256, 64").find("expected rising sizes"), std::string::npos);
  EXPECT_NE(with("rows = [64, 256", "rows = [64, 65").find("a larger product would be faster"), std::string::npos);
  EXPECT_NE(with("name = \"8", "name = 8 \"").find("not valid TOML"), std::string::npos);
}

TEST(Cluster, DevicesThatShareCoresAreThoseOfOneNode) {
  EXPECT_FALSE(shares_cores(parse_cluster(node_file(), "c.toml").nodes[0]));
  const auto shared = [](int at_once) {
    return replace_all(node_file(), "\ndevices = 8", fmt::format("\ndevices = 8\ndevices_at_once = {}", at_once));
  };
  const Cluster c = parse_cluster(shared(2), "c.toml");
  EXPECT_EQ(c.nodes[0].devices_at_once, 2);
  EXPECT_TRUE(shares_cores(c.nodes[0]));
  EXPECT_FALSE(shares_cores(parse_cluster(shared(8), "c.toml").nodes[0]));
  EXPECT_NE(message_of(shared(9)).find("devices_at_once: 9, expected 1 to 8"), std::string::npos)
      << message_of(shared(9));
  const std::string two = message_of(replace_all(shared(2), "count = 1", "count = 2"));
  EXPECT_NE(two.find("2 nodes, expected one: the devices of 'dgx' share cores"), std::string::npos) << two;
  EXPECT_THROW(with_nodes(c, 2), Error);
}

TEST(Cluster, EveryKeyIsCheckedWhereverItStands) {
  const std::string good = node_file();
  size_t tables = 0;
  std::string out;
  for (const std::string_view line : split(good, '\n')) {
    if (!line.starts_with("[")) continue;
    const std::string header(line.substr(0, line.find("  #")));
    if (header.find(".peak") != std::string::npos) continue;  // its keys are dtypes: a message of its own
    ++tables;
    const std::string message = message_of(replace_all(good, header, header + "\nnonsense = 1\n#"));
    EXPECT_NE(message.find("nonsense: is no key here"), std::string::npos) << header << ": " << message;
  }
  EXPECT_GE(tables, 8u);
}

TEST(Matmul, ALargerProductIsNeverFaster) {
  const Machine m = machine_of(read_cluster(kFolder + "h100-node.toml"), 0);
  const int64_t sizes[] = {1, 63, 64, 65, 127, 129, 300, 1000, 1024, 1025, 5000, 40000};
  for (const int64_t a : sizes)
    for (const int64_t b : sizes) {
      int64_t last[3] = {0, 0, 0};
      for (const int64_t x : sizes) {
        const int64_t now[3] = {matmul_ps(m.device, DType::bf16, x, a, b), matmul_ps(m.device, DType::bf16, a, x, b),
                                matmul_ps(m.device, DType::bf16, a, b, x)};
        for (int i = 0; i < 3; ++i) {
          EXPECT_GE(now[i], last[i]) << x << " " << a << " " << b;
          last[i] = now[i];
        }
      }
    }
}

TEST(Matmul, ACurveIsFourConstants) {
  const std::string good = node_file();
  const size_t from = good.find("rows = [64, 256"), to = good.find("]\n\n[[device.h100.matmul]]  # assumed, likewise");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const auto with = [&](const std::string& curve) { return good.substr(0, from) + curve + good.substr(to + 1); };
  const Machine m =
      machine_of(parse_cluster(with("curve = { top = 0.8, rows = 64, columns = 32, depth = 16 }"), "c.toml"), 0);
  const auto time = [&](int64_t rows, int64_t columns, int64_t depth) {
    return matmul_ps(m.device, DType::bf16, rows, columns, depth);
  };
  EXPECT_NEAR(double(time(256, 512, 64)), 2.0 * (256 + 64) * (512 + 32) * (64 + 16) / (0.8 * 989e12) * 1e12, 2);
  EXPECT_EQ(time(129, 512, 64), time(256, 512, 64)) << "whole tiles";
  for (int64_t size = 1; size < 5000; size = size * 5 / 4 + 1) {
    EXPECT_GE(time(size + 7, 300, 70), time(size, 300, 70));
    EXPECT_GE(time(300, size + 7, 70), time(300, size, 70));
    EXPECT_GE(time(300, 70, size + 7), time(300, 70, size));
  }
  EXPECT_NE(message_of(with("curve = { top = 1.2, rows = 1, columns = 1, depth = 1 }"))
                .find("curve.top: 1.2, expected 0.001 to 1"),
            std::string::npos);
  EXPECT_NE(message_of(with("curve = { top = 0.8, rows = -1, columns = 1, depth = 1 }")).find("curve.rows"),
            std::string::npos);
  EXPECT_NE(message_of(with("curve = { top = 0.8, rows = 1, columns = 1, depth = 1, k = 1 }"))
                .find("curve.k: is no key here"),
            std::string::npos);
  EXPECT_NE(message_of(with("rows = [64]\ncurve = { top = 0.8, rows = 1, columns = 1, depth = 1 }"))
                .find("a grid beside a curve"),
            std::string::npos);
}

TEST(Matmul, TilesAreWholeAndSharesAreTheTables) {
  const Machine m = machine_of(read_cluster(kFolder + "h100-node.toml"), 0);
  const MatmulRates& t = m.device.matmul[0];
  EXPECT_EQ(matmul_ps(m.device, DType::bf16, 129, 128, 64), matmul_ps(m.device, DType::bf16, 256, 128, 64));
  const int64_t m0 = t.rows[3], n0 = t.columns[2], k0 = t.depth[1];
  const double share = t.share[(3 * t.columns.size() + 2) * t.depth.size() + 1];
  const double want = 2.0 * double(m0) * double(n0) * double(k0) / (989e12 * share) * 1e12;
  EXPECT_NEAR(double(matmul_ps(m.device, DType::bf16, m0, n0, k0)), want, 2 + want * 1e-12);
  EXPECT_EQ(matmul_ps(m.device, DType::bf16, 0, 5, 5), 0);
  EXPECT_THROW(matmul_ps(m.device, DType::f64, 5, 5, 5), Error);
}

// What `tern profile` adds to a file: rates by use and type, the engine, quartiles.
TEST(Cluster, RatesByUseAndTypeAreRead) {
  std::string file = node_file();
  const std::string at = "[[device.h100.matmul]]";
  const auto with = [&](const std::string& more) {
    std::string text = file;
    return text.insert(text.find(at), more);
  };
  const std::string table =
      "[[device.h100.matmul]]\ndtype = \"bf16\"\nproduct = \"inference\"\ntile = [1, 1, 1]\n"
      "curve = { top = 0.01, rows = 0, columns = 0, depth = 0 }\n";
  const DeviceType d = parse_cluster(with(table), "c.toml").devices[0];
  EXPECT_TRUE(has_table(d, DType::bf16, ProductUse::inference));
  EXPECT_FALSE(has_table(d, DType::f32, ProductUse::inference));
  EXPECT_NEAR(static_cast<double>(matmul_ps(d, DType::bf16, 1, 1000, 1000, ProductUse::inference)),
              2e6 / 989e12 / 0.01 * 1e12, 1);
  EXPECT_EQ(matmul_ps(d, DType::bf16, 1, 999, 999, ProductUse::head), matmul_ps(d, DType::bf16, 1, 999, 999));
  EXPECT_EQ(matmul_ps(d, DType::f32, 1, 999, 999, ProductUse::inference), matmul_ps(d, DType::f32, 1, 999, 999));
  EXPECT_NE(message_of(with(table + table)).find("2 tables for bf16 and product inference"), std::string::npos);
  EXPECT_NE(message_of(with("[[device.h100.matmul]]\ndtype = \"bf16\"\nproduct = \"sums\"\n")).find("expected input_"),
            std::string::npos);
  EXPECT_NE(message_of(with("[device.h100.attention.bf16]\nforward = 0.5\n")).find("attention.bf16.backward"),
            std::string::npos);
  EXPECT_NE(message_of(with("[device.h100.attention.f99]\nforward = 0.5\n")).find("is no key here"), std::string::npos);
  EXPECT_NE(message_of(with("[device.h100.elementwise]\nbf16 = \"3B/s\"\n")).find("1kB/s at least"), std::string::npos);
  const std::string measured = "\n[[measured]]\nname = \"memory\"\nunit = \"B/s\"\nmedian = 4\nlow = 3\nhigh = 5\n";
  const Cluster c = parse_cluster(file + measured + "rounds = 7\n", "c.toml");
  ASSERT_EQ(c.measured.size(), 1u);
  EXPECT_DOUBLE_EQ(c.measured[0].spread(), 0.5);
  EXPECT_NE(message_of(file + measured).find("measured.rounds"), std::string::npos);
}

// A constant part, a part by row and one by element: a grid of times gives back every size between its points.
TEST(Matmul, AGridOfTimesIsLinearInEachSize) {
  const auto seconds = [](double m, double n, double k) { return 5e-6 + 1e-9 * m * n + 2e-12 * m * n * k; };
  std::string shares;
  for (const double m : {1.0, 64.0})
    for (const double n : {256.0, 1024.0})
      for (const double k : {256.0, 4096.0}) shares += std::to_string(2 * m * n * k / (1e14 * seconds(m, n, k))) + ", ";
  const std::string table =
      "[[device.h100.matmul]]\ndtype = \"bf16\"\nproduct = \"inference\"\ntile = [1, 1, 1]\nrows = [1, 64]\n"
      "columns = [256, 1024]\ndepth = [256, 4096]\nshare = [" +
      shares + "]\nbetween = \"time\"\n";
  std::string text = replace_all(node_file(), "\"989TFLOP/s\"", "\"100TFLOP/s\"");
  text.insert(text.find("[[device.h100.matmul]]"), table);
  const DeviceType d = parse_cluster(text, "c.toml").devices[0];
  const auto got = [&](int64_t m, int64_t n, int64_t k) {
    return static_cast<double>(matmul_ps(d, DType::bf16, m, n, k, ProductUse::inference)) * 1e-12;
  };
  for (const int64_t m : {1, 7, 64})
    for (const int64_t n : {256, 300, 1024})
      for (const int64_t k : {256, 1000, 4096})
        EXPECT_NEAR(got(m, n, k) / seconds(double(m), double(n), double(k)), 1, 2e-3) << m << " " << n << " " << k;
  EXPECT_NEAR(got(1, 2048, 256) / got(1, 1024, 256), 2, 1e-6) << "beyond the grid the edge's share";
  EXPECT_NEAR(got(1, 256, 128) / got(1, 256, 256), 0.5, 1e-6);
  EXPECT_NE(message_of(replace_all(text, "\"time\"", "\"times\"")).find("between: 'times', expected share or time"),
            std::string::npos);
}

std::string with_rates(const std::string& more) {
  std::string text = node_file();
  return text.insert(text.find("[[device.h100.matmul]]"), more);
}

// A pair of a query and a key takes 1 + head/64 at the peak's pace, and half of that more over 100 keys.
TEST(Cluster, AttentionBetweenMeasuredHeadsTakesTheirTimes) {
  const auto row = [](int64_t head, double slower) {
    const double share = static_cast<double>(head) / (1 + static_cast<double>(head) / 64) / 100;
    return "[[device.h100.attention.bf16.heads]]\nhead = " + std::to_string(head) +
           "\nforward = " + std::to_string(share) + "\nbackward = " + std::to_string(share / slower) +
           "\nforward_half = 50\ndecode = " + std::to_string(share) + "\n";
  };
  const DeviceType d = parse_cluster(with_rates(row(32, 2) + row(64, 2) + row(128, 4)), "c.toml").devices[0];
  const auto rates = [&](int64_t head) { return attention_rates(d, DType::bf16, head); };
  for (const int64_t head : {32, 48, 64, 96, 128})
    EXPECT_NEAR(static_cast<double>(head) / rates(head).forward, 100 + 100 * static_cast<double>(head) / 64, 0.1)
        << head;
  EXPECT_NEAR(rates(48).backward, rates(48).forward / 2, 1e-5);
  EXPECT_NEAR(96 / rates(96).backward, (2 * 200 + 4 * 300) / 2, 0.1);
  EXPECT_NEAR(rates(48).forward_half, 50, 1e-9);
  EXPECT_NEAR(rates(96).decode, rates(96).forward, 1e-5);
  EXPECT_NEAR(16 / rates(16).forward, 32 / rates(32).forward, 1e-6) << "as dear as the smallest";
  EXPECT_EQ(rates(256).forward, rates(128).forward);
  EXPECT_EQ(attention_rates(d, DType::f32, 48).forward, d.attention_forward) << "of a type without heads";
  EXPECT_NE(message_of(with_rates(row(64, 2) + row(64, 2))).find("heads.head: 64, expected rising sizes, after 64"),
            std::string::npos);
  EXPECT_NE(message_of(with_rates("[device.h100.attention.bf16]\nheads = []\n")).find("no sizes"), std::string::npos);
  EXPECT_NE(message_of(with_rates(row(64, 2) + "k = 1\n")).find("heads.k: is no key here"), std::string::npos);
}

TEST(Cluster, ReadsAreACurveOverTheWorkingSet) {
  const auto row = [](const char* dtype, const char* bytes, const char* rates) {
    return std::string("[[device.h100.read]]\ndtype = \"") + dtype + "\"\nbytes = \"" + bytes + "\"\n" + rates + "\n";
  };
  const std::string rows = row("bf16", "16MiB", "rate = \"60GB/s\"\nmapped = \"40GB/s\"") +
                           row("bf16", "256MiB", "rate = \"20GB/s\"\nmapped = \"10GB/s\"") +
                           row("bf16", "1GiB", "rate = \"15GB/s\"") + row("f32", "16MiB", "rate = \"50GB/s\"");
  const DeviceType d = parse_cluster(with_rates(rows), "c.toml").devices[0];
  constexpr int64_t kMiB = 1 << 20;
  const auto rate = [&](int64_t mib, bool mapped) { return read_rate(d, DType::bf16, mib * kMiB, mapped) / 1e9; };
  EXPECT_NEAR(rate(1, false), 60, 1e-9);
  EXPECT_NEAR(rate(16, false), 60, 1e-9);
  EXPECT_NEAR(rate(64, false), 2 / (1.0 / 60 + 1.0 / 20), 1e-9) << "half of the way, by time";
  EXPECT_NEAR(rate(256, false), 20, 1e-9);
  EXPECT_NEAR(rate(100'000, false), 15, 1e-9);
  EXPECT_NEAR(rate(16, true), 40, 1e-9);
  EXPECT_NEAR(rate(100'000, true), 10, 1e-9) << "the last that was measured so";
  EXPECT_NEAR(read_rate(d, DType::f32, 999 * kMiB, true) / 1e9, 50, 1e-9) << "as memory";
  EXPECT_EQ(read_rate(d, DType::f64, kMiB, false), d.memory_bandwidth) << "not measured";
  EXPECT_NE(message_of(with_rates(row("bf16", "2MiB", "rate = \"1GB/s\"") + row("bf16", "1MiB", "rate = \"1GB/s\"")))
                .find("read.bytes: 1048576, expected rising sizes"),
            std::string::npos);
  EXPECT_NE(message_of(with_rates(row("bf16", "2MiB", "rate = \"1B/s\""))).find("1kB/s at least"), std::string::npos);
}

// A file is not trusted: what reports print of it holds no escape sequence and no line of its own.
TEST(Cluster, NamesHoldNoControlCharacters) {
  std::string text = cluster_text("a100-80g");
  const auto put = [&](const std::string& from, const std::string& to) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++count)
      text.replace(at, from.size(), to);
    EXPECT_GT(count, 0U) << from;
  };
  const std::string evil = "a\\u001b[31m\\nb";
  put("name = \"8 x A100 SXM4 80GB (DGX A100)\"", "name = \"" + evil + "\"");
  put("device.a100", "device.\"" + evil + "\"");
  put("device = \"a100\"", "device = \"" + evil + "\"");
  put("node.dgx", "node.\"" + evil + "\"");
  put("node = \"dgx\"", "node = \"" + evil + "\"");
  put("\"nvlink\"", "\"" + evil + "\"");
  put("\"infiniband\"", "\"" + evil + "\"");
  const Cluster c = parse_cluster(text, "evil.toml");
  for (const std::string& name :
       {c.name, c.devices[0].name, c.nodes[0].name, c.nodes[0].link.name, c.network[0].name}) {
    EXPECT_EQ(name.find_first_of("\x1b\n"), std::string::npos);
    EXPECT_EQ(name.front(), 'a');
    EXPECT_EQ(name.back(), 'b');
  }
  try {
    put("memory = \"80GB\"", "memory = 3");
    parse_cluster(text, "evil.toml");
    ADD_FAILURE();
  } catch (const Error& e) { EXPECT_EQ(std::string(e.what()).find_first_of("\x1b\n"), std::string::npos) << e.what(); }
}

}  // namespace
}  // namespace tern
