#include "calibrate/constants.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "hardware/rates.h"

namespace tern {
namespace {

enum : size_t {
  top,
  rows,
  inner,
  attention,
  score_bytes,
  passes,
  issue,
  whole_head,
  link_share,
  link_latency,
  network_share,
  send_share,
  sync_hidden,
  step,
};

int64_t ps_of_us(double us) { return static_cast<int64_t>(std::llround(us * 1e6)); }

}  // namespace

const std::array<ConstantSpec, kNumConstants>& constant_specs() {
  static const std::array<ConstantSpec, kNumConstants> specs{{
      {"top", "share", "of the dtype's peak that very large products reach", 0.85, 0.15, 0.05, 1, true},
      {"rows", "rows", "at which a product reaches half of that", 128, 0.5, 1, 4096, true},
      {"inner", "columns", "and depth, likewise", 128, 0.5, 1, 4096, true},
      {"attention", "share", "of the peak that attention in one kernel reaches forward; backward 0.8 of it", 0.55, 0.3,
       0.01, 1, true},
      {"score_bytes", "B", "moved per attended pair and head forward, twice that backward; 0: attention in one kernel",
       0, 26, 0, 200, false},
      {"passes", "times", "the bytes of fused elementwise work that are moved", 2, 0.5, 1, 20, true},
      {"issue", "us", "the host's time to issue one of the model's kernels", 40, 40, 0, 500, false},
      {"whole_head", "times", "as long for the products of a head that is not split over ranks", 1, 0.4, 1, 8, true},
      {"link_share", "share", "of a node's link that collectives reach", 0.8, 0.2, 0.05, 1, true},
      {"link_latency", "us", "of a step of a collective inside a node", 12, 0.7, 0.5, 500, true},
      {"network_share", "share", "of a node's network that collectives reach", 0.6, 0.8, 0.02, 1, true},
      {"send_share", "share", "of the links that transfers between stages reach", 1, 0.7, 0.02, 1, true},
      {"sync_hidden", "share", "of the gradients' reduction that may run beside the backward", 0.5, 0.5, 0, 1, false},
      {"step", "ms", "once a step", 0, 5, 0, 10000, false},
  }};
  return specs;
}

Constants nominal_constants() {
  Constants c;
  std::transform(constant_specs().begin(), constant_specs().end(), c.begin(), [](const auto& s) { return s.nominal; });
  return c;
}

Cluster with_constants(Cluster cluster, DType dtype, const Constants& c) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    if (!cluster.has_nodes_of(static_cast<int>(i))) continue;
    DeviceType& d = cluster.devices[i];
    const auto of_dtype = [&](const MatmulRates& t) { return t.dtype == dtype; };
    const auto table = std::find_if(d.matmul.begin(), d.matmul.end(), of_dtype);
    if (table == d.matmul.end()) peak_flops(d, dtype);  // says which dtypes there are
    TERN_CHECK(table != d.matmul.end(), "with_constants: no table for {}", name_of(dtype));
    const MatmulRates curve{.dtype = dtype, .tile = table->tile, .top = c[top], .half = {c[rows], c[inner], c[inner]}};
    std::erase_if(d.matmul, of_dtype);  // one curve for all uses
    d.matmul.push_back(curve);
    d.attention_forward = c[attention], d.attention_backward = 0.8 * c[attention], d.attention_of.clear();
    d.framework = {.traits = d.framework.traits,
                   .score_bytes = c[score_bytes],
                   .passes = c[passes],
                   .whole_head = c[whole_head],
                   .send_share = c[send_share],
                   .sync_hidden = c[sync_hidden],
                   .issue_ps = ps_of_us(c[issue]),
                   .step_ps = ps_of_us(c[step] * 1e3)};
  }
  for (NodeType& n : cluster.nodes) {
    n.link.bandwidth = n.link.nominal * c[link_share];
    n.link.latency_ps = ps_of_us(c[link_latency]);
    n.network = n.network_nominal * c[network_share];
  }
  return cluster;
}

}  // namespace tern
