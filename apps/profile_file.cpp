#include "apps/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "apps/nccl_tests.h"
#include "base/rounding.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/units.h"

namespace tern {
namespace {

using Points = std::map<std::array<int64_t, 3>, RoundSpread>;

std::string rate(double per_second, const char* unit) { return fmt::format("\"{:.5g}G{}\"", per_second / 1e9, unit); }
std::string comment(const RoundSpread& s, const std::string& how) {
  const double width = s.median > 0 ? 100 * (s.high - s.low) / s.median : 0;
  return fmt::format("  # measured, quartiles {:.0f} % apart: {}\n", width, how);
}

struct Figures {
  const ProfileTasks& tasks;
  const std::vector<BenchResult>& results;

  RoundSpread one(FigureKind kind, DType dtype = DType::f32, int64_t length = 0, int64_t head = 0) const {
    for (size_t i = 0; i < results.size(); ++i) {
      const ProfileFigure& f = tasks.figures[i];
      if (f.kind == kind && f.dtype == dtype && (length == 0 || f.m == length) && (head == 0 || f.n == head))
        return spread(results[i].rates);
    }
    return {};
  }
  // Of a kind and type, as they were measured: of attention the heads, of reads the bytes.
  std::vector<int64_t> sizes(FigureKind kind, DType dtype, int64_t ProfileFigure::*size) const {
    std::vector<int64_t> out;
    for (const ProfileFigure& f : tasks.figures)
      if (f.kind == kind && f.dtype == dtype && std::find(out.begin(), out.end(), f.*size) == out.end())
        out.push_back(f.*size);
    return out;
  }
  Points products(DType dtype, ProductUse use) const {
    Points points;
    for (size_t i = 0; i < results.size(); ++i) {
      const ProfileFigure& f = tasks.figures[i];
      if (f.kind == FigureKind::product && f.dtype == dtype && f.use == use)
        points[{f.m, f.n, f.k}] = spread(results[i].rates);
    }
    return points;
  }
};

// Seconds that never fall from a shape to a larger one: noise may have said otherwise.
std::vector<double> rising_seconds(const std::array<std::vector<int64_t>, 3>& axes, const Points& points) {
  std::vector<double> seconds;
  const std::array<size_t, 3> stride{axes[1].size() * axes[2].size(), axes[2].size(), 1};
  for (const int64_t m : axes[0])
    for (const int64_t n : axes[1])
      for (const int64_t k : axes[2]) {
        const double flops = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        double s = flops / std::max(points.at({m, n, k}).median, 1.0);
        const size_t at = seconds.size();
        const std::array<size_t, 3> index{at / stride[0], at / stride[1] % axes[1].size(), at % axes[2].size()};
        for (size_t a = 0; a < 3; ++a)
          if (index[a] > 0) s = std::max(s, seconds[at - stride[a]] * (1 + 1e-4));
        seconds.push_back(s);
      }
  return seconds;
}

void add_table(std::string& out, DType dtype, ProductUse use, const Points& points, double peak) {
  std::array<std::vector<int64_t>, 3> axes;
  double widest = 0;
  for (const auto& [shape, s] : points) {
    for (size_t a = 0; a < 3; ++a)
      if (std::find(axes[a].begin(), axes[a].end(), shape[a]) == axes[a].end()) axes[a].push_back(shape[a]);
    if (s.median > 0) widest = std::max(widest, (s.high - s.low) / s.median);
  }
  for (auto& axis : axes) std::sort(axis.begin(), axis.end());
  const std::vector<double> seconds = rising_seconds(axes, points);
  out +=
      fmt::format("\n[[device.cpu.matmul]]  # measured: {} shapes, quartiles at most {:.0f} % apart\ndtype = \"{}\"\n",
                  points.size(), 100 * widest, name_of(dtype));
  if (use != ProductUse::any) out += fmt::format("product = \"{}\"\n", name_of(use));
  out += fmt::format("between = \"time\"\ntile = [1, 1, 1]\nrows = [{}]\ncolumns = [{}]\ndepth = [{}]\nshare = [\n",
                     fmt::join(axes[0], ", "), fmt::join(axes[1], ", "), fmt::join(axes[2], ", "));
  size_t at = 0;
  for (const int64_t m : axes[0])
    for (const int64_t n : axes[1]) {
      out += " ";
      for (const int64_t k : axes[2]) {
        const double flops = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        out += fmt::format(" {:.6g},", std::clamp(flops / seconds[at++] / peak, 1e-6, 1.0));
      }
      out += fmt::format("  # {} × {}\n", m, n);
    }
  out += "]\n";
}

// rate(n) = top · n / (n + half) through both lengths; a rate that falls with the length is constant.
struct Saturation {
  double top = 0, half = 0;
};
Saturation saturation(double at_few, double at_many) {
  const double few = kShortSequence, many = kLongSequence;
  if (!(at_many > at_few)) return {at_many, 0};
  // n / rate = (n + half) / top, linear in n; what grows faster than the length has no such curve.
  const double slope = (many / at_many - few / at_few) / (many - few);
  if (!(slope > 0)) return {at_many, 0};
  return {1 / slope, std::min(std::max(0.0, few / at_few / slope - few), 1e6)};
}

std::string share(double of, double whole) { return fmt::format("{:.5f}", std::clamp(of / whole, 1e-5, 1.0)); }

void add_attention(std::string& out, const Figures& figures, DType dtype, int64_t head, double peak, double memory,
                   std::array<double, 2>& f32_shares) {
  out += fmt::format("\n[[device.cpu.attention.{}.heads]]\nhead = {}  # 8 of them\n", name_of(dtype), head);
  const auto line = [&](const char* key, FigureKind kind) {
    const RoundSpread few = figures.one(kind, dtype, kShortSequence, head);
    const RoundSpread many = figures.one(kind, dtype, kLongSequence, head);
    const Saturation fit = saturation(few.median, many.median);
    const std::string how = fmt::format("{:.0f} and {:.0f} GFLOP/s over {} and {} keys", few.median / 1e9,
                                        many.median / 1e9, kShortSequence, kLongSequence);
    out += fmt::format("{} = {}", key, share(fit.top, peak)) + comment(many, how);
    out += fmt::format("{}_half = {:.1f}\n", key, fit.half);
    if (dtype == DType::f32 && kind != FigureKind::prefill && (head == 64 || f32_shares.back() == 0))
      f32_shares[kind == FigureKind::attention_backward] = std::clamp(fit.top / peak, 0.001, 1.0);
  };
  line("forward", FigureKind::attention_forward);
  line("backward", FigureKind::attention_backward);
  line("prefill", FigureKind::prefill);
  const RoundSpread few = figures.one(FigureKind::decode, dtype, kShortSequence, head);
  const RoundSpread many = figures.one(FigureKind::decode, dtype, kLongSequence, head);
  const Saturation decode = saturation(few.median, many.median);
  out += fmt::format("decode = {:.5f}", std::clamp(decode.top / memory, 1e-5, 100.0)) +
         comment(many, fmt::format("one query, {:.1f} and {:.1f} GB/s of keys and values that no cache holds",
                                   few.median / 1e9, many.median / 1e9)) +
         fmt::format("decode_half = {:.1f}\n", decode.half);
}

void add_reads(std::string& out, const Figures& figures, DType dtype) {
  for (const int64_t bytes : figures.sizes(FigureKind::weight_read, dtype, &ProfileFigure::m)) {
    const RoundSpread read = figures.one(FigureKind::weight_read, dtype, bytes);
    const RoundSpread mapped = figures.one(FigureKind::mapped_read, dtype, bytes);
    out += fmt::format("\n[[device.cpu.read]]\ndtype = \"{}\"\nbytes = \"{}B\"\nrate = {}", name_of(dtype), bytes,
                       rate(read.median, "B/s")) +
           comment(read, "products of one row, 1024 × 1024, from so many bytes again and again");
    if (mapped.median > 0)
      out += "mapped = " + rate(mapped.median, "B/s") + comment(mapped, "the same from a file that is mapped");
  }
}

// The fit over all collectives and sizes.
void add_rank_links(std::string& out, const Figures& figures, int ranks, TeamLinks links) {
  std::vector<NcclTest> tests;
  size_t rows = 0;
  for (const auto& [kind, name] : {std::pair{FigureKind::all_reduce, "all_reduce"},
                                   {FigureKind::all_gather, "all_gather"},
                                   {FigureKind::reduce_scatter, "reduce_scatter"},
                                   {FigureKind::all_to_all, "alltoall"}}) {
    NcclTest& test = tests.emplace_back();
    test.collective = name, test.ranks = ranks;
    for (const int64_t bytes : figures.sizes(kind, DType::f32, &ProfileFigure::m)) {
      const double rate = std::max(figures.one(kind, DType::f32, bytes).median, 1.0);
      test.rows.push_back({.bytes = bytes, .us = 1e6 * static_cast<double>(bytes) / rate});
    }
    rows += test.rows.size();
  }
  const LinkFit fit = fit_links(tests);
  out += fmt::format(
      "\n[node.this.link]  # between ranks, {}: all-reduce, all-gather, reduce-scatter and all-to-all\n"
      "# one bandwidth and latency for {} of them are off by {:.0f} % in the middle, {:.0f} % at most (at {})\n"
      "name = \"ranks\"\nbandwidth = {}\nshare = 1\nlatency = \"{:.4g}us\"\n",
      links == TeamLinks::tcp ? "over TCP on this machine" : "threads of one process", rows, 100 * fit.median_error,
      100 * fit.worst_error, format_bytes(fit.worst_bytes), rate(fit.bandwidth, "B/s"), fit.latency_s * 1e6);
  out += "\n[node.this.network]  # none was measured; the ranks'\nbandwidth = " + rate(fit.bandwidth, "B/s") +
         "\nshare = 1\n";
}

void add_links(std::string& out, const Figures& figures, const ProfiledMachine& m) {
  if (m.ranks > 1) return add_rank_links(out, figures, m.ranks, m.links);
  const RoundSpread wire = figures.one(FigureKind::loopback), message = figures.one(FigureKind::loopback_calls);
  out += "\n[node.this.link]  # between ranks of this machine\nname = \"loopback\"\nbandwidth = " +
         rate(wire.median, "B/s") + comment(wire, "one TCP connection on 127.0.0.1") +
         "share = 1\nlatency = " + fmt::format("\"{:.4g}us\"", 1e6 / std::max(message.median, 1.0)) +
         comment(message, "one byte, one way");
  out += "\n[node.this.network]  # none was measured; the loopback's\nbandwidth = " + rate(wire.median, "B/s") +
         "\nshare = 1\n";
}

std::string team_of(const ProfiledMachine& m) {
  const std::string threads = counted(m.threads, "thread");
  return m.ranks > 1 ? fmt::format("{} ranks of {}", m.ranks, threads) : threads;
}

}  // namespace

ProfileNoise profile_noise(const std::vector<BenchResult>& results) {
  ProfileNoise noise;
  for (const BenchResult& r : results) {
    const RoundSpread s = spread(r.rates);
    const double width = s.median > 0 ? (s.high - s.low) / s.median : 0;
    ++noise.figures;
    noise.told = noise.told && s.tells();
    if (!s.conclusive()) ++noise.wide;
    if (width > noise.spread) noise.spread = width, noise.widest = r.task.name;
  }
  return noise;
}

std::string describe(const ProfileNoise& n) {
  if (!n.told)
    return fmt::format("measured in fewer than {} rounds: how far the figures spread is not known",
                       RoundSpread::kLeastRounds);
  if (!n.too_noisy()) return "";
  return fmt::format(
      "this machine was too noisy: {} of {} figures spread by more than 10 % over the rounds (most: {}, {:.0f} %); "
      "what is predicted from them may be as far off; profile again when it is quiet",
      n.wide, n.figures, n.widest, 100 * n.spread);
}

static double ranks_at_once(const ProfiledMachine& m) { return ranks_at_once(m.ranks, m.threads, m.cpus); }
static bool shares_cpus(const ProfiledMachine& m) { return ranks_at_once(m) < m.ranks; }

std::string shared_cpus(const ProfiledMachine& m) {
  if (!shares_cpus(m)) return "";
  return fmt::format(
      "{} ranks of {} share {}: each rate is the share of a rank when all of them compute. The time of a plan's "
      "Program counts "
      "that a rank that waits leaves its CPU to others; the search does not, so pipelines look slower to it than they "
      "are. To plan for this machine, measure with at most {}",
      m.ranks, counted(m.threads, "thread"), counted(m.cpus, "CPU"),
      counted(static_cast<int64_t>(ranks_at_once(m)), "rank"));
}

// Longer than a screen: the file from top to bottom.
std::string profile_toml(const ProfileTasks& tasks, const std::vector<BenchResult>& results, const ProfiledMachine& m) {
  const Figures figures{tasks, results};
  const size_t rounds = results.front().rates.size();
  constexpr DType kTypes[]{DType::f32, DType::bf16};
  constexpr ProductUse kUses[]{ProductUse::any, ProductUse::input_gradient, ProductUse::weight_gradient,
                               ProductUse::head, ProductUse::inference};
  std::map<DType, double> peak;
  for (const DType dtype : kTypes)
    for (const ProductUse use : kUses)
      for (const auto& [shape, s] : figures.products(dtype, use)) peak[dtype] = std::max(peak[dtype], s.median);

  std::string out =
      fmt::format("# {}, {}, {}: measured by tern {} on {}, each rate the median of {} rounds over all of them.\n",
                  make_printable(m.name), team_of(m), m.isa, m.tern, m.date, rounds);
  for (const std::string& warning : {describe(profile_noise(results)), shared_cpus(m)})
    if (!warning.empty()) out += "# " + warning + "\n";
  out +=
      fmt::format("version = 1\nname = {}\n\n[device.cpu]\nengine = \"tern\"  # rates of this engine's own kernels\n",
                  toml_text(fmt::format("{}, {}", m.name, team_of(m))));
  if (m.ranks > 1) out += "# a device is a rank: its share of the memory, and of the rates when all ranks compute\n";
  const RoundSpread memory = figures.one(FigureKind::memory_read), copy = figures.one(FigureKind::memory_copy);
  out += fmt::format("memory = \"{}B\"  # of the machine, or of the control group\n", m.memory_bytes / m.ranks);
  out += fmt::format("reserved = \"{}B\"  # in use when this was measured, and the program itself\n",
                     ceil_div(m.reserved_bytes, m.ranks));
  out += "memory_bandwidth = " + rate(memory.median, "B/s") + comment(memory, "reads by all threads");
  out += "memory_share = 1  # the rate above is reached\n";
  const RoundSpread calls = figures.one(FigureKind::calls);
  out += fmt::format("launch = \"{:.4g}ns\"", 1e9 / std::max(calls.median, 1.0)) +
         comment(calls, "a decoded token of a model of 64 columns");

  const RoundSpread sampling = figures.one(FigureKind::sampling);
  out +=
      "sampling = " + rate(sampling.median, "B/s") + comment(sampling, "the likeliest of 32,000 and its probability");

  out += "\n[device.cpu.peak]  # the fastest of the products below\n";
  for (const DType dtype : kTypes) out += fmt::format("{} = {}\n", name_of(dtype), rate(peak[dtype], "FLOP/s"));
  out += "\n[device.cpu.elementwise]\n";
  for (const DType dtype : kTypes) {
    const RoundSpread s = figures.one(FigureKind::elementwise, dtype);
    out += fmt::format("{} = {}", name_of(dtype), rate(s.median, "B/s")) +
           comment(s, "rms norm and gated SiLU, forward and backward");
  }
  out += "\n[device.cpu.update]  # 2·states + gradient + weight, by the time\n";
  for (const DType dtype : kTypes) {
    const RoundSpread s = figures.one(FigureKind::update, dtype);
    out += fmt::format("{} = {}", name_of(dtype), rate(s.median, "B/s")) +
           comment(s, "the gradients' norm, AdamW, gradients cleared");
  }
  std::string by_type;
  std::array<double, 2> f32_shares{};
  for (const DType dtype : kTypes)
    for (const int64_t head : figures.sizes(FigureKind::decode, dtype, &ProfileFigure::n))
      add_attention(by_type, figures, dtype, head, peak[dtype], memory.median, f32_shares);
  out +=
      fmt::format("\n[device.cpu.attention]  # shares of the f32 peak, as below\nforward = {:.5f}\nbackward = {:.5f}\n",
                  f32_shares[0], f32_shares[1]);
  out += by_type;
  for (const DType dtype : kTypes) add_reads(out, figures, dtype);
  for (const DType dtype : kTypes)
    for (const ProductUse use : kUses)
      if (const Points points = figures.products(dtype, use); !points.empty())
        add_table(out, dtype, use, points, peak[dtype]);

  out += fmt::format("\n[node.this]\ndevice = \"cpu\"\ndevices = {}\n", m.ranks);
  if (shares_cpus(m)) out += fmt::format("devices_at_once = {:.6g}  # CPUs over threads of a rank\n", ranks_at_once(m));
  out +=
      fmt::format("host_memory = \"{}B\"  # the device's own\nhost_reserved = \"{}B\"  # nothing beside the device's\n",
                  m.memory_bytes, m.memory_bytes);
  out += "host_bandwidth = " + rate(memory.median, "B/s") + comment(memory, "as the device's");
  if (m.disk_bytes > 0) {
    const RoundSpread read = figures.one(FigureKind::disk_read), write = figures.one(FigureKind::disk_write);
    out += fmt::format("disk = \"{}B\"  # free when this was measured\n", m.disk_bytes);
    out += "disk_read = " + rate(read.median, "B/s") + comment(read, "blocks of 1 MiB, past the page cache");
    out += "disk_write = " + rate(write.median, "B/s") + comment(write, "blocks of 1 MiB, synced");
  }
  out += "\n[node.this.host_link]  # to itself: a copy in memory\nbandwidth = " + rate(copy.median, "B/s") +
         comment(copy, "copies by one thread") + "share = 1\nlatency = \"0us\"\n";
  add_links(out, figures, m);
  out += "\n[[nodes]]\nnode = \"this\"\ncount = 1\n";
  for (const BenchResult& r : results) {
    const RoundSpread s = spread(r.rates);
    out += fmt::format(
        "\n[[measured]]\nname = {}\nunit = \"{}\"\nmedian = {:.5g}\nlow = {:.5g}\nhigh = {:.5g}\nrounds = "
        "{}\n",
        toml_text(r.task.name), r.task.unit, s.median, s.low, s.high, r.rates.size());
  }
  return out;
}

}  // namespace tern
