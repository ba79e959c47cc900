#include "hardware/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "base/toml.h"

namespace tern {
namespace {

using Kind = TomlValue::Kind;
constexpr int64_t kMaxDevices = int64_t{1} << 30;
constexpr std::array kUses{ProductUse::any, ProductUse::input_gradient, ProductUse::weight_gradient, ProductUse::head,
                           ProductUse::inference};

// Rates and times that a mistyped prefix makes are refused here, where file and key are known.
constexpr double kLeastBandwidth = 1e3, kLeastPeak = 1e6;  // B/s, FLOP/s
constexpr int64_t kLongest = 3600LL * 1'000'000'000'000;   // ps

double bandwidth(TomlFields& f, std::string_view key, std::optional<double> fallback = {}) {
  const double x = f.quantity(key, "B/s", fallback);
  if (x < kLeastBandwidth && (f.has(key) || !fallback)) f.fail(key, "expected 1kB/s at least, such as \"64GB/s\"");
  return x;
}
int64_t latency(TomlFields& f, std::string_view key) {
  const int64_t ps = f.picoseconds(key);
  if (ps > kLongest) f.fail(key, "expected an hour at most, such as \"4us\"");
  return ps;
}

// A key that is a dtype's name.
DType dtype_of_key(TomlFields& f, const std::string& key) {
  try {
    return dtype_from_name(key);
  } catch (const Error& e) { f.fail(key, "{}", e.what()); }
}

void check_rising(TomlFields& f, std::string_view key, const std::vector<int64_t>& axis) {
  if (axis.empty() || !std::is_sorted(axis.begin(), axis.end(), std::less_equal<>{}) ||
      axis.back() > (int64_t{1} << 40))
    f.fail(key, "expected rising sizes, at least one");
}

// A larger product may not be faster: neighbours' shares may rise at most as fast as the size.
void check_monotone(TomlFields& f, const MatmulRates& t) {
  const std::array<const std::vector<int64_t>*, 3> axes{&t.rows, &t.columns, &t.depth};
  const std::array<size_t, 3> stride{t.columns.size() * t.depth.size(), t.depth.size(), 1};
  for (size_t i = 0; i < t.share.size(); ++i)
    for (size_t a = 0; a < 3; ++a) {
      const std::vector<int64_t>& axis = *axes[a];
      const size_t at = i / stride[a] % axis.size();
      if (at + 1 == axis.size()) continue;
      const double here = t.share[i], next = t.share[i + stride[a]];
      if (next * static_cast<double>(axis[at]) > here * static_cast<double>(axis[at + 1]))
        f.fail("share", "entry {} ({}) is more than {}/{} of entry {} ({}): a larger product would be faster",
               i + stride[a] + 1, next, axis[at + 1], axis[at], i + 1, here);
    }
}

MatmulRates read_matmul(const TomlValue& value, const std::string& path, const std::string& prefix) {
  TomlFields f(value, path, prefix);
  MatmulRates t;
  t.dtype = f.dtype("dtype");
  const std::string product = f.text("product", "any");
  const auto use = std::find_if(kUses.begin(), kUses.end(), [&](ProductUse u) { return name_of(u) == product; });
  if (use == kUses.end())
    f.fail("product", "'{}', expected input_gradient, weight_gradient, head or inference; left out: all others",
           make_printable(product));
  t.use = *use;
  const std::vector<int64_t> tile = f.integers("tile");
  if (tile.size() != 3 || *std::max_element(tile.begin(), tile.end()) > 4096)
    f.fail("tile", "expected three sizes [rows, columns, depth], at most 4096");
  std::copy(tile.begin(), tile.end(), t.tile.begin());
  if (f.has("curve")) {
    for (const char* grid : {"rows", "columns", "depth", "share"})
      if (f.has(grid)) f.fail(grid, "a grid beside a curve; give one of the two");
    TomlFields curve(f.require("curve", Kind::table), path, prefix + "curve.");
    t.top = curve.number("top", 0.001, 1);
    t.half = {curve.number("rows", 0, 1e6), curve.number("columns", 0, 1e6), curve.number("depth", 0, 1e6)};
    curve.finish();
    f.finish();
    return t;
  }
  t.rows = f.integers("rows"), t.columns = f.integers("columns"), t.depth = f.integers("depth");
  check_rising(f, "rows", t.rows), check_rising(f, "columns", t.columns), check_rising(f, "depth", t.depth);
  t.share = f.numbers("share");
  const size_t want = t.rows.size() * t.columns.size() * t.depth.size();
  if (t.share.size() != want)
    f.fail("share", "{} numbers, expected {} (rows × columns × depth, depth fastest)", t.share.size(), want);
  for (const double x : t.share)
    if (!(x > 0 && x <= 1)) f.fail("share", "{}, expected above 0, at most 1", x);
  check_monotone(f, t);
  if (const std::string between = f.text("between", "share"); between == "time")
    t.linear_time = true;
  else if (between != "share")
    f.fail("between", "'{}', expected share or time: what is interpolated", make_printable(between));
  f.finish();
  return t;
}

AttentionRates read_attention(TomlFields& f) {
  AttentionRates r{f.number("forward", 1e-6, 1), f.number("backward", 1e-6, 1)};
  r.prefill = f.number("prefill", 1e-6, 1, r.forward);
  r.decode = f.number("decode", 1e-6, 100, 1);
  r.forward_half = f.number("forward_half", 0, 1e6, 0);
  r.backward_half = f.number("backward_half", 0, 1e6, 0);
  r.prefill_half = f.number("prefill_half", 0, 1e6, 0);
  r.decode_half = f.number("decode_half", 0, 1e6, 0);
  return r;
}

// One row for heads of any size, or several for rising ones.
void read_attention_of(DType dtype, const TomlValue& table, const std::string& path, const std::string& prefix,
                       std::vector<HeadAttentionRates>& out) {
  TomlFields own(table, path, prefix);
  const TomlValue* heads = own.optional("heads", Kind::array);
  if (!heads) {
    out.push_back({dtype, 0, read_attention(own)});
    return own.finish();
  }
  int64_t last = 0;
  for (const TomlValue& value : heads->elements) {
    TomlFields row(value, path, prefix + "heads.");
    const int64_t head = row.integer("head", 1, 1 << 16);
    if (head <= last) row.fail("head", "{}, expected rising sizes, after {}", head, last);
    out.push_back({dtype, last = head, read_attention(row)});
    row.finish();
  }
  if (last == 0) own.fail("heads", "no sizes, expected at least one");
  own.finish();
}

std::vector<std::pair<DType, double>> read_rates(TomlFields& f, std::string_view key, const std::string& path,
                                                 const std::string& prefix) {
  std::vector<std::pair<DType, double>> out;
  const TomlValue* table = f.optional(key, Kind::table);
  if (!table) return out;
  TomlFields rates(*table, path, prefix + std::string(key) + ".");
  for (const TomlMember& m : table->members) out.emplace_back(dtype_of_key(rates, m.key), bandwidth(rates, m.key));
  rates.finish();
  return out;
}

std::vector<ReadRate> read_reads(TomlFields& f, const std::string& path, const std::string& prefix) {
  std::vector<ReadRate> out;
  const TomlValue* rows = f.optional("read", Kind::array);
  if (!rows) return out;
  for (const TomlValue& value : rows->elements) {
    TomlFields row(value, path, prefix + "read.");
    ReadRate r{row.dtype("dtype"), row.bytes("bytes"), bandwidth(row, "rate")};
    r.mapped = bandwidth(row, "mapped", 0);
    int64_t last = 0;
    for (const ReadRate& before : out)
      if (before.dtype == r.dtype) last = before.bytes;
    if (r.bytes <= last) row.fail("bytes", "{}, expected rising sizes, after {}", r.bytes, last);
    out.push_back(r);
    row.finish();
  }
  return out;
}

DeviceType read_device(const std::string& name, const TomlValue& value, const std::string& path) {
  const std::string prefix = "device." + make_printable(name) + ".";
  TomlFields f(value, path, prefix);
  DeviceType d{.name = name};
  d.memory_bytes = f.bytes("memory");
  d.reserved_bytes = f.bytes("reserved");
  if (d.reserved_bytes >= d.memory_bytes) f.fail("reserved", "leaves nothing of the device's memory");
  d.memory_nominal = bandwidth(f, "memory_bandwidth");
  d.memory_bandwidth = d.memory_nominal * f.number("memory_share", 0.01, 1);
  d.launch_ps = latency(f, "launch");
  d.price_per_hour = f.number("price_per_hour", 0, 1e9, 0);
  TomlFields peak(f.require("peak", Kind::table), path, prefix + "peak.");
  for (const auto& [key, unused] : f.require("peak", Kind::table).members) {
    const DType dtype = dtype_of_key(peak, key);
    const double rate = peak.quantity(key, "FLOP/s");
    if (rate < kLeastPeak) peak.fail(key, "expected 1MFLOP/s at least, such as \"989TFLOP/s\"");
    d.peak.emplace_back(dtype, rate);
  }
  if (d.peak.empty()) f.fail("peak", "states no dtype, expected at least one, such as bf16 = \"989TFLOP/s\"");
  TomlFields attention(f.require("attention", Kind::table), path, prefix + "attention.");
  d.attention_forward = attention.number("forward", 0.001, 1);
  d.attention_backward = attention.number("backward", 0.001, 1);
  for (const auto& peak_of : d.peak) {
    const std::string key(name_of(peak_of.first));
    const TomlValue* table = attention.optional(key, Kind::table);
    if (!table) continue;
    read_attention_of(peak_of.first, *table, path, prefix + "attention." + key + ".", d.attention_of);
  }
  attention.finish();
  d.elementwise = read_rates(f, "elementwise", path, prefix);
  d.update = read_rates(f, "update", path, prefix);
  d.reads = read_reads(f, path, prefix);
  d.sampling = bandwidth(f, "sampling", 0);
  d.engine = f.text("engine", "");
  if (!d.engine.empty() && d.engine != "tern")
    f.fail("engine", "'{}', expected \"tern\", or no such key", make_printable(d.engine));
  for (const TomlValue& table : f.require("matmul", Kind::array).elements) {
    d.matmul.push_back(read_matmul(table, path, prefix + "matmul."));
    const DType dtype = d.matmul.back().dtype;
    if (std::none_of(d.peak.begin(), d.peak.end(), [&](const auto& p) { return p.first == dtype; }))
      f.fail("matmul", "a table for {}, whose peak is not stated", name_of(dtype));
  }
  for (const auto& peak_of : d.peak) {  // not bound by names: clang cannot capture those with OpenMP
    const DType dtype = peak_of.first;
    for (const ProductUse use : kUses) {
      const auto tables = std::count_if(d.matmul.begin(), d.matmul.end(),
                                        [&](const auto& t) { return t.dtype == dtype && t.use == use; });
      if (use == ProductUse::any && tables != 1) f.fail("matmul", "expected one table for {}", name_of(dtype));
      if (tables > 1) f.fail("matmul", "{} tables for {} and product {}", tables, name_of(dtype), name_of(use));
    }
  }
  f.finish();
  return d;
}

NodeType read_node(const std::string& name, const TomlValue& value, const Cluster& cluster, const std::string& path) {
  const std::string prefix = "node." + make_printable(name) + ".";
  TomlFields f(value, path, prefix);
  NodeType n{.name = name};
  const std::string device = f.text("device");
  std::vector<std::string_view> names;
  for (const DeviceType& d : cluster.devices) names.push_back(d.name);
  n.device = static_cast<int>(std::find(names.begin(), names.end(), device) - names.begin());
  if (n.device == static_cast<int>(names.size()))
    f.fail("device", "'{}' is not defined{}", make_printable(device), did_you_mean(device, names));
  n.num_devices = f.integer("devices", 1, 4096);
  if (f.has("devices_at_once")) n.devices_at_once = f.number("devices_at_once", 1, static_cast<double>(n.num_devices));
  n.host_bytes = f.bytes("host_memory");
  n.host_reserved_bytes = f.bytes("host_reserved");
  if (n.host_reserved_bytes > n.host_bytes) f.fail("host_reserved", "more than the host has");
  n.pinned_bytes = f.bytes("pinned", n.host_bytes - n.host_reserved_bytes);
  n.host_bandwidth = bandwidth(f, "host_bandwidth");
  n.disk_bytes = f.bytes("disk", 0);
  n.disk_reserved_bytes = f.bytes("disk_reserved", 0);
  if (n.disk_reserved_bytes > n.disk_bytes) f.fail("disk_reserved", "more than the disk has");
  n.disk_read = bandwidth(f, "disk_read", 0), n.disk_write = bandwidth(f, "disk_write", 0);
  if (n.disk_bytes > 0 && !(n.disk_read > 0 && n.disk_write > 0))
    f.fail("disk", "needs disk_read and disk_write beside it");
  n.price_per_hour = f.number("price_per_hour", 0, 1e9, 0);

  TomlFields host(f.require("host_link", Kind::table), path, prefix + "host_link.");
  n.host_link_bandwidth = bandwidth(host, "bandwidth") * host.number("share", 0.01, 1) /
                          static_cast<double>(host.integer("shared_by", 1, 64, 1));
  n.host_link_latency_ps = latency(host, "latency");
  host.finish();
  TomlFields link(f.require("link", Kind::table), path, prefix + "link.");
  const double link_nominal = bandwidth(link, "bandwidth");
  n.link = {link.text("name"), n.num_devices, link_nominal * link.number("share", 0.01, 1), latency(link, "latency"),
            link_nominal};
  link.finish();
  TomlFields network(f.require("network", Kind::table), path, prefix + "network.");
  n.network_nominal = bandwidth(network, "bandwidth");
  n.network = n.network_nominal * network.number("share", 0.01, 1);
  network.finish();
  f.finish();
  return n;
}

void read_network(TomlFields& f, Cluster& c, const std::string& path) {
  const TomlValue* network = f.optional("network", Kind::array);
  if (!network) return;
  for (const TomlValue& value : network->elements) {
    TomlFields l(value, path, "network.");
    NetworkLevel level{l.text("name"), l.integer("nodes", 1, kMaxDevices), latency(l, "latency"),
                       l.number("oversubscription", 1, 1000, 1)};
    if (!c.network.empty() && level.nodes <= c.network.back().nodes)
      l.fail("nodes", "{}, expected more than the {} of '{}', the level inside it", level.nodes, c.network.back().nodes,
             c.network.back().name);
    l.finish();
    c.network.push_back(level);
  }
}

void read_groups(TomlFields& f, Cluster& c, const std::string& path) {
  std::vector<std::string_view> names;
  for (const NodeType& n : c.nodes) names.push_back(n.name);
  for (const TomlValue& value : f.require("nodes", Kind::array).elements) {
    TomlFields g(value, path, "nodes.");
    const std::string node = g.text("node");
    const auto at = std::find(names.begin(), names.end(), node);
    if (at == names.end()) g.fail("node", "'{}' is not defined{}", make_printable(node), did_you_mean(node, names));
    c.groups.push_back({static_cast<int>(at - names.begin()), g.integer("count", 1, kMaxDevices)});
    g.finish();
  }
  if (c.groups.empty()) f.fail("nodes", "no nodes, expected at least one [[nodes]]");
  int64_t nodes = 0;
  for (const NodeGroup& g : c.groups) nodes += g.count;
  if (nodes > kMaxDevices) f.fail("nodes", "{} nodes are more than is counted", nodes);
  for (const NodeGroup& g : c.groups)
    if (shares_cores(c.nodes[static_cast<size_t>(g.node)]) && nodes > 1)
      f.fail("nodes", "{} nodes, expected one: the devices of '{}' share cores (devices_at_once)", nodes,
             make_printable(c.nodes[static_cast<size_t>(g.node)].name));
  const int64_t reach = c.network.empty() ? 1 : c.network.back().nodes;
  if (nodes > reach)
    f.fail("network", "joins {} nodes, there are {}; the outermost [[network]] level must hold all", reach, nodes);
}

// Names go into plans, reports and messages: no control character of an untrusted file reaches a terminal.
void make_names_printable(Cluster& c) {
  c.name = make_printable(c.name);
  for (DeviceType& d : c.devices) d.name = make_printable(d.name), d.engine = make_printable(d.engine);
  for (NodeType& n : c.nodes) n.name = make_printable(n.name), n.link.name = make_printable(n.link.name);
  for (NetworkLevel& level : c.network) level.name = make_printable(level.name);
  for (Measurement& m : c.measured) m.name = make_printable(m.name), m.unit = make_printable(m.unit);
}

}  // namespace

int64_t Cluster::num_devices() const {
  int64_t n = 0;
  for (const NodeGroup& g : groups) n += g.count * nodes[static_cast<size_t>(g.node)].num_devices;
  return n;
}

bool shares_cores(const NodeType& node) {
  return node.devices_at_once > 0 && node.devices_at_once < static_cast<double>(node.num_devices);
}

bool Cluster::has_nodes_of(int device) const {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const NodeGroup& g) { return nodes[static_cast<size_t>(g.node)].device == device; });
}

Cluster parse_cluster(std::string_view toml, const std::string& path) {
  const TomlValue root = parse_toml(toml, path);
  TomlFields f(root, path);
  f.version(1);
  Cluster c;
  c.path = path;
  c.name = f.text("name");
  for (const auto& [name, value] : f.require("device", Kind::table).members)
    c.devices.push_back(read_device(name, value, path));
  for (const auto& [name, value] : f.require("node", Kind::table).members)
    c.nodes.push_back(read_node(name, value, c, path));
  read_network(f, c, path);
  read_groups(f, c, path);
  if (const TomlValue* rows = f.optional("measured", Kind::array))
    for (const TomlValue& value : rows->elements) {
      TomlFields m(value, path, "measured.");
      c.measured.push_back({.name = m.text("name"),
                            .unit = m.text("unit"),
                            .median = m.number("median", 0, 1e21),
                            .low = m.number("low", 0, 1e21),
                            .high = m.number("high", 0, 1e21),
                            .rounds = m.integer("rounds", 1, 1 << 20)});
      m.finish();
    }
  f.finish();
  make_names_printable(c);
  return c;
}

Cluster read_cluster(const std::string& path) { return parse_cluster(real_io().read(path), path); }

Cluster with_nodes(Cluster cluster, int64_t nodes) {
  if (cluster.groups.size() != 1)
    throw Error(ErrorKind::usage, "--nodes {}: '{}' has {} groups of nodes; give their counts in the file", nodes,
                cluster.name, cluster.groups.size());
  if (const NodeType& node = cluster.nodes[static_cast<size_t>(cluster.groups[0].node)];
      nodes > 1 && shares_cores(node))
    throw Error(ErrorKind::usage,
                "--nodes {}: the devices of '{}' share cores (devices_at_once), which is planned for "
                "one node alone",
                nodes, node.name);
  const int64_t joined = cluster.network.empty() ? 1 : cluster.network.back().nodes;
  if (nodes > joined)
    throw Error(ErrorKind::usage, "--nodes {}: the network of '{}' joins {} nodes; add a [[network]] level to its file",
                nodes, cluster.name, joined);
  if (nodes != cluster.groups[0].count) cluster.name = fmt::format("{} nodes of: {}", nodes, cluster.name);
  cluster.groups[0].count = nodes;
  return cluster;
}

std::string_view name_of(ProductUse use) {
  constexpr std::string_view names[]{"any", "input_gradient", "weight_gradient", "head", "inference"};
  return names[static_cast<size_t>(use)];
}

}  // namespace tern
