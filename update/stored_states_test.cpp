// States that lie in a file: the bits of states in memory, in the bytes of the closed form.
#include "update/stored_states.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rounding.h"
#include "store/scratch_testing.h"
#include "update/rule_testing.h"

namespace tern {
namespace {

// A matrix and a table of several subgroups and a rest, a small matrix, a vector. What a rule takes whole is small, as its products are not what is
// tested.
std::vector<std::pair<std::string, ParameterForm>> stored_forms(const UpdateConfig& config) {
  ParameterForm matrix{ParameterKind::matrix, 300, 500};
  if (row_of(config.rule).grain(matrix) == UpdateGrain::parameter) matrix.rows = 30, matrix.columns = 50;
  return {{"matrix", matrix},
          {"table", {ParameterKind::table, 211, 331}},
          {"small", {ParameterKind::matrix, 12, 5}},
          {"vector", {ParameterKind::vector, 1, 7}}};
}
double cheap_number(const std::string& name, uint64_t stream, int64_t i) {
  const uint64_t mixed = (static_cast<uint64_t>(i) + 977 * stream + 13 * name.size()) * 2654435761u;
  return static_cast<double>((mixed >> 9) & 0xffff) / 65536 - 0.4;
}

// The masters and slots of the run go to a file.
std::unique_ptr<StoredStates> store_states(RuleRun& run, DType dtype, int64_t subgroup, Arena& arena) {
  StoredLayout layout = stored_layout(run.state.forms, run.config, dtype, subgroup);
  OpenedScratch opened{std::make_unique<MemoryScratch>(layout.file_bytes, kStoredAlignment), ReadWay::direct, ""};
  auto states = std::make_unique<StoredStates>(std::move(opened), std::move(layout), StoredPassage{subgroup}, arena);
  std::vector<size_t> order;
  for (size_t p = 0; p < run.state.infos.size(); ++p) {
    order.push_back(p);
    if (!states->field(p, kMasterField)) continue;
    const Tensor& master = run.state.master[p];
    states->write(p, kMasterField, {static_cast<const std::byte*>(master.data()), static_cast<size_t>(master.bytes())});
    run.state.master[p] = {};
  }
  for (std::vector<Tensor>& slot : run.state.slots)
    for (Tensor& t : slot) t = {};
  states->begin(order);
  run.pass.stored = states.get();
  return states;
}

void expect_same_field(StoredStates& states, size_t p, int slot, const Tensor& want) {
  const StoredField* field = states.field(p, slot);
  ASSERT_EQ(field != nullptr, !want.empty());
  if (!field) return;
  EXPECT_EQ(field->elements, want.count());
  EXPECT_EQ(field->type, want.dtype());
  std::vector<std::byte> bytes;
  states.read(p, slot,
              [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  ASSERT_EQ(std::ssize(bytes), want.bytes());
  EXPECT_EQ(std::memcmp(bytes.data(), want.data(), bytes.size()), 0);
}

TEST(StoredStates, EveryRuleGivesTheBitsOfStatesInMemory) {
  for (const UpdateConfig& config : configs_of_every_rule())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      if (!why_not_stored(config).empty()) continue;
      SCOPED_TRACE(std::string(name_of(config.rule)) + " " + std::string(name_of(dtype)));
      const auto first = [](const std::string& name, int64_t i) { return cheap_number(name, 0, i); };
      RuleRun want(config, dtype, stored_forms(config), first), got(config, dtype, stored_forms(config), first);
      Arena arena;
      const auto states = store_states(got, dtype, kUpdateBlock, arena);
      for (int64_t step = 1; step <= 2; ++step)
        for (RuleRun* run : {&want, &got}) {
          run->set_gradients(
              [&](const std::string& name, int64_t i) { return cheap_number(name, static_cast<uint64_t>(step), i); });
          run->step(step, 0.02);
        }
      for (size_t p = 0; p < want.state.infos.size(); ++p) {
        SCOPED_TRACE(want.state.infos[p].name);
        EXPECT_EQ(values_of(got.pass.weights[p]), values_of(want.pass.weights[p]));
        EXPECT_EQ(values_of(got.pass.gradients[p]), values_of(want.pass.gradients[p])) << "zero";
        if (has_own_masters(config, dtype)) expect_same_field(*states, p, kMasterField, want.state.master[p]);
        for (size_t s = 0; s < want.state.slots.size(); ++s)
          expect_same_field(*states, p, static_cast<int>(s), want.state.slots[s][p]);
      }
    }
}

TEST(StoredStates, BytesAreThoseOfTheClosedForm) {
  for (const UpdateConfig& config : configs_of_every_rule())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const int64_t subgroup : {kUpdateBlock, 2 * kUpdateBlock, 64 * kUpdateBlock}) {
        if (!why_not_stored(config).empty()) continue;
        SCOPED_TRACE(std::string(name_of(config.rule)) + " " + std::string(name_of(dtype)));
        RuleRun run(config, dtype, stored_forms(config), [](const std::string&, int64_t) { return 0.5; });
        int64_t bytes = 0, blocks = 0;
        for (const ParameterForm& form : run.state.forms) bytes += state_bytes(config, dtype, form);
        const StoredLayout layout = stored_layout(run.state.forms, config, dtype, subgroup);
        for (const ExchangedRecord& r : layout.records)
          for (const Extent& e : r.extents) bytes -= e.bytes, blocks += round_up(e.bytes, kStoredAlignment);
        EXPECT_EQ(bytes, 0) << "the parts are the whole";
        EXPECT_EQ(layout.file_bytes, blocks);
        Arena arena;
        const auto states = store_states(run, dtype, subgroup, arena);
        EXPECT_EQ(arena.current_total(), passage_bytes(layout, {subgroup}));
        run.step(1, 0.02);
        states->settle();
        EXPECT_EQ(states->counts().used_bytes, layout.state_bytes);
        EXPECT_EQ(states->counts().written_bytes, layout.file_bytes);
      }
}

TEST(StoredStates, ThePassageIsASixteenthOrTheSmallest) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  const auto passage_of = [&](int64_t rows, int64_t columns, int count) {
    const std::vector<ParameterForm> forms(static_cast<size_t>(count),
                                           ParameterForm{ParameterKind::matrix, rows, columns});
    const StoredPassage passage = stored_passage(forms, config, DType::bf16);
    const StoredLayout layout = stored_layout(forms, config, DType::bf16, passage.subgroup);
    return std::pair{passage.subgroup,
                     static_cast<double>(passage_bytes(layout, passage)) / static_cast<double>(layout.state_bytes)};
  };
  EXPECT_EQ(passage_of(64, 64, 4).first, 4 * kUpdateBlock);
  const auto [middle, share] = passage_of(2048, 2048, 40);  // 1.9 GiB of states
  EXPECT_GT(middle, 4 * kUpdateBlock);
  EXPECT_LE(share, 1.0 / 16);
  EXPECT_EQ(passage_of(8192, 8192, 30).first, 64 * kUpdateBlock);
}

TEST(StoredStates, RulesThatSumOverStatesAreRefusedByName) {
  EXPECT_EQ(why_not_stored(update_config(UpdateRule::adamw)), "");
  EXPECT_NE(why_not_stored(update_config(UpdateRule::lamb)), "");
  EXPECT_NE(why_not_stored(update_config(UpdateRule::schedule_free)), "");
  EXPECT_NE(why_not_stored(update_config(UpdateRule::sngm)), "");
  EXPECT_EQ(why_not_stored(update_config(UpdateRule::sngm, {{"weight-decay", 0}})), "");
}

}  // namespace
}  // namespace tern
