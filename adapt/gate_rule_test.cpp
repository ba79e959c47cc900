// Gates: gradients against differences, and what their rule promises to earlier tasks.
#include "adapt/gate_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "adapt/gate_trainer.h"
#include "adapt/window_prompt.h"

namespace tern {
namespace {

using List = std::vector<double>;

List normal(size_t count, std::mt19937& random) {
  std::normal_distribution<double> numbers;
  List list(count);
  for (double& x : list) x = numbers(random);
  return list;
}

InputGate gate_of(int64_t width, int64_t hidden, uint32_t seed) {
  std::mt19937 random(seed);
  InputGate gate = first_gate(width, hidden, seed);
  gate.key = normal(static_cast<size_t>(width), random);
  return gate;
}

double dot(const List& a, const List& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(GateRule, GradientsAreThoseOfDifferences) {
  std::mt19937 random(5);
  for (const auto& [width, hidden] : {std::pair<int64_t, int64_t>{7, 5}, {33, 1}, {1, 3}, {16, 31}}) {
    const InputGate gate = gate_of(width, hidden, 3);
    const List p = normal(static_cast<size_t>(width), random);
    const GatePass pass = run_gate(gate, p);
    InputGate gradient = state_of(gate).first_moment;
    gradient.key.assign(gradient.key.size(), 0.25);  // it is added to what is there
    add_gate_gradient(gate, pass, 1.5, gradient);
    for (double& x : gradient.key) x -= 0.25;
    double along = 0;
    InputGate direction = gate;
    for_each_list(direction, [&](const char*, List& list) { list = normal(list.size(), random); });
    const auto moved = [&](double step) {
      InputGate to = gate;
      for (size_t i = 0; i < to.first.size(); ++i) to.first[i] += step * direction.first[i];
      for (size_t i = 0; i < to.second.size(); ++i) to.second[i] += step * direction.second[i];
      for (size_t i = 0; i < to.key.size(); ++i) to.key[i] += step * direction.key[i];
      return 1.5 * run_gate(to, p).gate;
    };
    along = dot(gradient.first, direction.first) + dot(gradient.second, direction.second) +
            dot(gradient.key, direction.key);
    const double h = 1e-6, difference = (moved(h) - moved(-h)) / (2 * h);
    EXPECT_NEAR(along, difference, 1e-7 * (1 + std::abs(difference))) << width << " " << hidden;
  }
}

TEST(GateRule, AGateOfNothingIsClosedAndHasNoGradient) {
  InputGate gate = gate_of(6, 4, 1);
  gate.key.assign(6, 0);
  const GatePass pass = run_gate(gate, List(6, 1.0));
  EXPECT_EQ(pass.gate, 0);
  InputGate gradient = state_of(gate).first_moment;
  add_gate_gradient(gate, pass, 1, gradient);
  for (const double x : gradient.first) EXPECT_EQ(x, 0);
}

// Prompts of two tasks in spaces of few dimensions; the memory holds those of the first.
struct Learned {
  std::vector<List> old_prompts;
  InputGate before;
  GateMemory memory;
  GateState state;
  double opened = 0;  // the new gate for a prompt of the new task
};
Learned learned(GateUpdates updates) {
  constexpr int64_t kWidth = 24, kHidden = 17;
  std::mt19937 random(11);
  Learned l;
  l.before = gate_of(kWidth, kHidden, 7);
  for (int i = 0; i < 4; ++i) l.old_prompts.push_back(normal(kWidth, random));
  GateMoments old(l.before), fresh(l.before);
  for (const List& p : l.old_prompts) old.add(run_gate(l.before, p));
  l.memory = no_gate_memory(kWidth, kHidden);
  for (size_t map = 0; map < 3; ++map) remember(l.memory[map], old.mean(map), 1 - 1e-13, InfloraMode::paper);
  std::vector<List> prompts;
  for (int i = 0; i < 5; ++i) prompts.push_back(normal(kWidth, random)), fresh.add(run_gate(l.before, prompts.back()));
  InputGate begin = l.before;
  choose_key(begin, l.memory[2], fresh.mean(2), 1);
  l.state = state_of(begin);
  InputGate gradient = l.state.first_moment;
  for (int64_t step = 1; step <= 20; ++step) {
    for (const List& p : prompts) add_gate_gradient(l.state.gate, run_gate(l.state.gate, p), -1, gradient);
    step_gate(l.state, gradient, l.memory, updates, step, 3e-3);
    EXPECT_EQ(dot(gradient.key, gradient.key), 0) << "the gradient becomes zero";
  }
  l.opened = run_gate(l.state.gate, prompts.front()).gate;
  return l;
}

TEST(GateRule, WhatEarlierPromptsGetStaysAsItWasAndTheNewGateIsClosedForThem) {
  const Learned l = learned(GateUpdates::exact);
  double moved = 0;
  for (size_t i = 0; i < l.before.first.size(); ++i) moved += std::abs(l.state.gate.first[i] - l.before.first[i]);
  EXPECT_GT(moved, 0.1) << "it learns";
  EXPECT_GT(l.opened, 0.5);
  for (const List& p : l.old_prompts) {
    const GatePass was = run_gate(l.before, p), is = run_gate(l.state.gate, p);
    for (size_t i = 0; i < is.sum.size(); ++i) EXPECT_NEAR(is.sum[i], was.sum[i], 1e-12);
    for (size_t i = 0; i < is.out.size(); ++i) EXPECT_NEAR(is.out[i], was.out[i], 1e-12);
    EXPECT_LE(is.gate, 1e-12);
  }
}

TEST(GateRule, RescaledRowsGiveThatUp) {
  const Learned l = learned(GateUpdates::rescaled);
  double most = 0;
  for (const List& p : l.old_prompts) most = std::max(most, run_gate(l.state.gate, p).gate);
  EXPECT_GT(most, 1e-6);
}

TEST(GateRule, AKeyIsFreeAlsoWhereNoOutputIs) {
  InputGate gate = gate_of(5, 3, 2);
  InputMemory outputs;
  outputs.dim = 5;
  List all(25);
  for (size_t i = 0; i < 2; ++i) all[i * 6] = 1;
  remember(outputs, all, 1, InfloraMode::paper);
  choose_key(gate, outputs, all, 9);
  EXPECT_NEAR(dot(gate.key, gate.key), 1, 1e-12);
  EXPECT_NEAR(gate.key[0] * gate.key[0] + gate.key[1] * gate.key[1], 0, 1e-24);
}

TEST(GatePrompt, IsWhatComesBeforeTheFirstLossOrTheFirstTokens) {
  MicroBatch text({1, 2, 3, 4, 5, 6}, {0, 6}, {2, 3, 4, 5, 6, 7}, nullptr);
  EXPECT_EQ(prompt_rows(text, 4), 4);
  hide_prompt(text, 4);
  EXPECT_EQ(text.targets, (std::vector<int32_t>{-1, -1, -1, 5, 6, 7}));
  EXPECT_EQ(prompt_rows(text, 4), 4) << "hidden, it is the same again";
  EXPECT_EQ(prompt_rows(MicroBatch({1, 2, 3}, {0, 3}, {-1, 3, 4}, nullptr), 9), 2)
      << "the answer's first token is told by two";
  EXPECT_EQ(prompt_rows(MicroBatch({1, 2, 3}, {0, 3}, {2, 3, 4}, nullptr), 9), 3);
  EXPECT_EQ(prompt_rows(MicroBatch({1, 2, 3}, {0, 3}, {-1, -1, -1}, nullptr), 9), 3);
}

}  // namespace
}  // namespace tern
