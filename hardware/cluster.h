#pragma once
// The cluster file: nodes, devices, memory tiers, links, rates, prices. It holds facts; nothing here measures, and no
// vendor's device is built into this code.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace tern {

/// What a product is for; a machine may have rates measured for each use.
enum class ProductUse : uint8_t {
  any,
  input_gradient,   // dx (m, n) = dy (m, k)·w
  weight_gradient,  // dw (m, n) += dyᵀ·x, k rows of both
  head,             // the head's loss with both gradients of its projection: time of 6·m·n·k FLOPs
  inference,        // exact kernels; weights are read from memory
};
/// Share of the peak that a matrix product of m rows, n columns and depth k reaches: measured on a grid of shapes, or a
/// curve of four constants. Shapes are first rounded up to whole tiles.
/// Grid   Between points log(share) is linear in the logarithms of the sizes. With `linear_time` the time is interpolated instead,
/// linearly in each of the three sizes: right for a time that is a sum of a constant and of terms in m, n, k, mn, mk, nk, mnk. Beyond the grid the share is
/// that of the grid's edge.
/// Curve  top · m/(m + half[0]) · n/(n + half[1]) · k/(k + half[2]): a product takes as long as one with half[0] more
///        rows, half[1] more columns and half[2] more depth would take at share `top`. If one size equals its half and the
///        others are large, half of `top` is reached.
/// Use    what the products are for; `any`: all uses without rates of their own.
struct MatmulRates {
  DType dtype = DType::bf16;
  ProductUse use = ProductUse::any;
  std::array<int64_t, 3> tile{1, 1, 1};  // m, n, k
  double top = 0;                        // curve; 0: grid
  std::array<double, 3> half{};
  std::vector<int64_t> rows, columns, depth;  // rising
  std::vector<double> share;                  // rows × columns × depth, the last fastest
  bool linear_time = false;
};

/// Shares of the peak that attention in one kernel reaches. Over n keys the share is share · n / (n + half). `decode`:
/// bytes/s of reading keys and values, as a share of the memory bandwidth.
struct AttentionRates {
  double forward = 0, backward = 0, prefill = 0, decode = 1;
  double forward_half = 0, backward_half = 0, prefill_half = 0, decode_half = 0;
};
/// The rates of one type, and of one head size if a machine was measured at several.
struct HeadAttentionRates {
  DType dtype = DType::bf16;
  int64_t head = 0;  // elements; 0: of any size
  AttentionRates rates;
};

/// Bytes/s at which a decoded token's products read weights of one type in a model that has `bytes` bytes of them: a small
/// model's weights stay in a cache from one token to the next. `mapped`: the rate from a mapped file; 0: not measured.
struct ReadRate {
  DType dtype = DType::bf16;
  int64_t bytes = 0;
  double rate = 0, mapped = 0;
};

/// How a micro-batch's weight gradients join the sum over micro-batches.
///   passes       like other elementwise work: all bytes but the product's own move FrameworkCosts::passes times
///   apart        one kernel behind the product, which reads both and writes the sum
///   in_products  the product adds as it writes: its bytes pass beside its arithmetic
enum class GradientSums : uint8_t { passes, apart, in_products };

/// How a framework computes, as rows of a table of runs state it (calibrate/run_table.h). No constant is fitted to these.
struct FrameworkTraits {
  double product_rate = 1;  // products run at this multiple of the dtype's peak: 2 where they multiply in 8 bits
  GradientSums sums = GradientSums::passes;
  bool sequence_parallel = true;  // false: each rank of a tensor group does the norms' work of all rows
  /// The sum of a column-parallel matrix's input gradients over a tensor group passes beside the gradient of its weights.
  bool hides_input_gradient_sums = false;
  /// ZeRO 1 and 2: the updated weights of a layer are gathered beside the step's first forward pass, not before it.
  bool gathers_weights_beside = false;
  /// Context ranks gather the keys and values of all, and sum the gradients of their own; no ring passes them on.
  bool gathers_context = false;
  friend bool operator==(const FrameworkTraits&, const FrameworkTraits&) = default;
};

/// In what a framework's steps differ from the formulas of plan/. The defaults change nothing; a calibration (calibrate/)
/// sets them.
struct FrameworkCosts {
  FrameworkTraits traits;
  double score_bytes = 0;  // moved forward per attended pair of each head, twice as many backward; 0: one fused kernel
  double passes = 1;       // bytes of elementwise work, as a multiple of what fused kernels move
  double whole_head = 1;   // the head's products take this many times as long, unless the head is split over ranks
  double send_share = 1;   // share of the link's bandwidth that messages between stages reach
  double sync_hidden = 1;  // share of a gradient's reduction that may run beside the backward; the rest comes after
  int64_t issue_ps = 0;    // the host's time to issue a kernel: a unit takes at least this for each of its kernels
  int64_t step_ps = 0;     // once a step
  friend bool operator==(const FrameworkCosts&, const FrameworkCosts&) = default;
};

struct DeviceType {
  std::string name;
  std::string engine;  // "tern": rates of this engine, as `tern profile` measured them; "": other rates
  int64_t memory_bytes = 0, reserved_bytes = 0;  // reserved: driver, context, communication buffers
  double memory_bandwidth = 0;                   // bytes/s that programs reach
  double memory_nominal = 0;                     // bytes/s of the data sheet
  std::vector<std::pair<DType, double>> peak;    // FLOP/s of dense matrix products
  std::vector<MatmulRates> matmul;
  double attention_forward = 0, attention_backward = 0;  // share of the peak
  std::vector<HeadAttentionRates> attention_of;          // if they differ by type; head sizes rising
  std::vector<std::pair<DType, double>> elementwise;     // bytes/s of norms and the like; not stated: memory_bandwidth
  std::vector<std::pair<DType, double>> update;          // bytes/s of the optimizer; not stated: memory_bandwidth
  std::vector<ReadRate> reads;                           // bytes rising within a type; none: memory_bandwidth
  double sampling =
      0;  // bytes/s of f32 logits from which a token is chosen; 0: not measured, then three passes over them at
          // the elementwise rate
  int64_t launch_ps = 0;  // that the device waits before each kernel
  double price_per_hour = 0;
  FrameworkCosts framework = {};
};

/// What one domain's links give each device, each way, when all devices use them at once.
struct LinkLevel {
  std::string name;
  int64_t devices = 1;   // devices in one domain of this level
  double bandwidth = 0;  // bytes/s per device, reached
  int64_t latency_ps = 0;
  double nominal = 0;  // bytes/s of the data sheet; 0: not stated
};

struct NodeType {
  std::string name;
  int device = 0;           // index in Cluster::devices
  int64_t num_devices = 1;  // in a node
  /// How many of its devices can compute at the same time without slowing each other down (3 CPUs, 2 threads each: 1.5); 0: all. Fewer than
  /// num_devices: they share cores, and rates are those of a device while all compute.
  double devices_at_once = 0;
  int64_t host_bytes = 0, host_reserved_bytes = 0;
  int64_t pinned_bytes = 0;   // most that may be page-locked
  double host_bandwidth = 0;  // bytes/s of main memory
  int64_t disk_bytes = 0, disk_reserved_bytes = 0;
  double disk_read = 0, disk_write = 0;  // bytes/s of a node
  double host_link_bandwidth = 0;        // bytes/s per device each way, all devices of a node at once
  int64_t host_link_latency_ps = 0;
  LinkLevel link;      // inside a node
  double network = 0;  // bytes/s that a node reaches each way, all its cards together
  double network_nominal = 0;
  double price_per_hour = 0;
};

/// Whether devices of the node share cores. A cluster with such a node has that node alone.
bool shares_cores(const NodeType&);

struct NetworkLevel {
  std::string name;
  int64_t nodes = 1;  // in one domain
  int64_t latency_ps = 0;
  double oversubscription = 1;  // a node gets network / oversubscription through this level
};

struct NodeGroup {
  int node = 0;  // index in Cluster::nodes
  int64_t count = 0;
};

/// One measured figure of a machine, as `tern profile` writes it beside the keys of the cluster file.
struct Measurement {
  std::string name, unit;
  double median = 0, low = 0, high = 0;  // quartiles
  int64_t rounds = 0;
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

struct Cluster {
  std::string name, path;
  std::vector<Measurement> measured;
  std::vector<DeviceType> devices;
  std::vector<NodeType> nodes;
  std::vector<NetworkLevel> network;  // innermost first
  std::vector<NodeGroup> groups;
  int64_t num_devices() const;
  bool has_nodes_of(int device) const;  // whether a group's nodes have this device type; a file may define unused types
};

/// Errors  bad_file "PATH:LINE: KEY: fact, expectation": an unknown key (with the nearest known one), a missing key, a
/// value out of range, an undefined name, or a table whose time would fall as a product grows.
Cluster read_cluster(const std::string& path);
Cluster parse_cluster(std::string_view toml, const std::string& path);
/// The same cluster with `nodes` nodes. Errors: usage, if it has several groups of nodes, or its network joins fewer.
Cluster with_nodes(Cluster, int64_t nodes);

std::string_view name_of(ProductUse);  // "any", "input_gradient", …

}  // namespace tern
