#pragma once
// Derives the links of a cluster file from what nccl-tests measured.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "apps/nccl_tests.h"

namespace tern {

struct ImportedTest {
  std::string path;
  NcclTest test;
  LinkFit fit;
};

struct MeasuredLink {
  size_t test = 0;  // index of the test that it comes from
  // bytes/s each way: for node.link of each device; for node.network of each node, with all its network cards together.
  double bandwidth = 0;
  double latency_s = 0;  // of a step of a collective
};
struct MeasuredLinks {
  std::optional<MeasuredLink> link, network;  // from tests on one host; from tests on several hosts
};
/// The links that the tests imply. It uses one test on one host, and one on several hosts: the first all_reduce, as training
/// does it most; without one, the first test. The network follows from its test:
///   bandwidth  A ring enters each node once, with all its bytes: the bandwidth is the ring's own. In an
///              alltoall the devices of a node send (1 − 1/hosts) of their bytes out of it, all at the same time. A sendrecv
///              has one pair per node; the node is taken to have a network card for each device, and the pair to use one.
///   latency    The n − 1 steps of a ring take as long as n/hosts − 1 steps on the link (0 s if no test measured it)
///              and hosts − 1 steps between nodes; an alltoall's step takes as long as one on the link plus one between nodes.
/// plan/comm_cost.h assumes that (1 − 1/hosts) of the bytes enter a node. The times that it computes from these links equal the
/// measured ones only where this share enters, or where node.link is the bottleneck.
MeasuredLinks links_of(std::span<const ImportedTest>);

/// The links as keys of a cluster file, with a line about each test.
std::string links_toml(std::span<const ImportedTest>);
/// What a reader should know before using a test, in words; "" if nothing.
std::string doubt_of(const ImportedTest&);

}  // namespace tern
