#pragma once
// What a device of a cluster file reaches: times of products, and rates of reading, attention and elementwise work,
// interpolated between the measured points of its tables.

#include <cstdint>

#include "hardware/cluster.h"

namespace tern {

/// The longest time of one operation, 10 hours. A longer time counts as kMostPs, so that sums over a layer fit in 64
/// bits; kMostPs therefore means "at least this long".
inline constexpr int64_t kMostPs = int64_t{1} << 55;
/// Whole picoseconds, rounded up; at most kMostPs.
int64_t counted_ps(double ps);
/// n · ps, at most kMostPs.
int64_t counted_ps(int64_t n, int64_t ps);

/// Time of one product in picoseconds: 2·m·n·k / (peak·share) with shapes rounded up to tiles, at most kMostPs. It
/// never falls as m, n or k grow. A use without a table has the table of `any`. Errors: usage, if the device states no
/// peak for the dtype.
int64_t matmul_ps(const DeviceType&, DType, int64_t m, int64_t n, int64_t k, ProductUse = ProductUse::any);
/// Whether products of this use have a table of their own.
bool has_table(const DeviceType&, DType, ProductUse);
/// The rates for heads of head_dim elements. Between measured head sizes the time of a (query, key) pair is linear in
/// the size. Below the smallest size a pair takes the smallest's time; above the largest size the largest's shares hold.
AttentionRates attention_rates(const DeviceType&, DType, int64_t head_dim);
double elementwise_rate(const DeviceType&, DType);  // bytes/s
/// bytes/s of an optimizer's step, which moves 2·(bytes of states) + (bytes of gradients and weights).
double update_rate(const DeviceType&, DType);
/// bytes/s of reading `working_set` bytes of weights again and again. Between measured sizes the time per byte is
/// linear in the logarithm of the size; outside it is that of the nearest size. mapped: weights are read from a mapped
/// file; if no such rate was measured for the dtype, the rate from memory holds.
double read_rate(const DeviceType&, DType, int64_t working_set, bool mapped);
/// FLOP/s. Errors: usage, naming the device and the dtypes it states.
double peak_flops(const DeviceType&, DType);

}  // namespace tern
