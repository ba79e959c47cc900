#include "comm/launched_rank.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tern {
namespace {

using Variables = std::map<std::string, std::string>;

std::string refusal_of(const Variables& v) {
  try {
    (void)launched_rank_of(v);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

const Variables kTorch{{"RANK", "5"},
                       {"WORLD_SIZE", "8"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "node1"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_RUN_ID", "x"},
                       {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kSlurm{{"SLURM_PROCID", "2"},
                       {"SLURM_STEP_NUM_TASKS", "5"},
                       {"SLURM_NTASKS", "5"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                       {"SLURM_STEP_NODELIST", "gpu[07-08],login"}};
const Variables kMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "job-1"}};

TEST(LaunchedRank, NoVariablesAreNoWorld) {
  EXPECT_FALSE(launched_rank_of({{"PATH", "/bin"}, {"MASTER_ADDR", "x"}}));
  // A batch script is no task of a step.
  EXPECT_FALSE(launched_rank_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(LaunchedRank, TorchrunsVariablesAndAStoreBesideItsOwn) {
  const LaunchedRank w = launched_rank_of(kTorch).value();
  EXPECT_EQ(std::tuple(w.rank, w.size, w.local_rank, w.local_size), std::tuple(5, 8, 1, 4));
  EXPECT_EQ(text_of(w.store), "node1:29501");
  EXPECT_FALSE(w.serves_store);
  EXPECT_EQ(w.launcher, "torchrun");
  Variables first = kTorch, restarted = kTorch;
  first["RANK"] = "0", first["LOCAL_RANK"] = "0", restarted["TORCHELASTIC_RESTART_COUNT"] = "3";
  EXPECT_TRUE(launched_rank_of(first)->serves_store);
  EXPECT_EQ(launched_rank_of(first)->token, w.token);
  EXPECT_NE(launched_rank_of(restarted)->token, w.token);
}

TEST(LaunchedRank, SlurmsStepOnTheNodesOfItsList) {
  const LaunchedRank w = launched_rank_of(kSlurm).value();
  EXPECT_EQ(std::tuple(w.rank, w.size, w.local_rank, w.local_size), std::tuple(2, 5, 0, 2));
  EXPECT_EQ(w.store.host, "gpu07");
  Variables last = kSlurm, other_job = kSlurm;
  last["SLURM_NODEID"] = "2", last["SLURM_PROCID"] = "4", other_job["SLURM_JOB_ID"] = "78";
  EXPECT_EQ(launched_rank_of(last)->local_size, 1);
  EXPECT_EQ(launched_rank_of(last)->store.port, w.store.port) << "all ranks look in one place";
  EXPECT_NE(launched_rank_of(other_job)->token, w.token);
}

TEST(LaunchedRank, OpenMpisVariables) {
  const LaunchedRank w = launched_rank_of(kMpi).value();
  EXPECT_EQ(std::tuple(w.rank, w.size, w.local_rank, w.local_size), std::tuple(1, 2, 1, 2));
  EXPECT_EQ(w.store.host, "127.0.0.1");
  Variables spread = kMpi;
  spread["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1", spread["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  EXPECT_NE(refusal_of(spread).find("set MASTER_ADDR"), std::string::npos) << refusal_of(spread);
  spread["MASTER_ADDR"] = "node9";
  EXPECT_EQ(launched_rank_of(spread)->store.host, "node9");
}

TEST(LaunchedRank, TernLaunchsVariablesCountAlone) {
  Variables v = kSlurm;
  for (const auto& [name, value] : {std::pair{"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"TERN_STORE", "127.0.0.1:4000"},
                                    {"TERN_RUN", "abc"}})
    v[name] = value;
  const LaunchedRank w = launched_rank_of(v).value();
  EXPECT_EQ(std::tuple(w.rank, w.size, w.serves_store), std::tuple(1, 2, false));
  EXPECT_EQ(text_of(w.store), "127.0.0.1:4000");
  EXPECT_EQ(w.token, "abc");
  v.erase("RANK"), v.erase("WORLD_SIZE");
  EXPECT_NE(refusal_of(v).find("RANK and WORLD_SIZE are not"), std::string::npos);
}

TEST(LaunchedRank, WhatContradictsItselfOrIsMissingIsNamed) {
  const auto refused = [](Variables v, const char* name, const char* value) {
    v[name] = value;
    return refusal_of(v);
  };
  const Variables by_hand{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(launched_rank_of(by_hand)->local_size, 2) << "one machine, where nobody says otherwise";
  EXPECT_EQ(refused(by_hand, "WORLD_SIZE", ""), "RANK is set and WORLD_SIZE is not; set both, or neither");
  EXPECT_EQ(refused(by_hand, "RANK", "2"), "RANK=2 and WORLD_SIZE=2: ranks count from 0");
  EXPECT_EQ(refused(by_hand, "RANK", "one"), "RANK=one: expected a whole number from 0 to 1048576");
  EXPECT_EQ(refused(kTorch, "LOCAL_RANK", "4"), "LOCAL_RANK=4 and LOCAL_WORLD_SIZE=4: ranks count from 0");
  EXPECT_EQ(refused(kTorch, "MASTER_PORT", "0"), "MASTER_PORT=0: expected a whole number from 1 to 65535");
  Variables both = kMpi;
  both["RANK"] = "1", both["WORLD_SIZE"] = "4";
  EXPECT_EQ(refusal_of(both),
            "WORLD_SIZE=4 and OMPI_COMM_WORLD_SIZE=2 contradict each other; unset those of the "
            "launcher that is not used");
  both["WORLD_SIZE"] = "2", both["RANK"] = "0";
  EXPECT_EQ(refusal_of(both),
            "RANK=0 and OMPI_COMM_WORLD_RANK=1 contradict each other; unset those of the launcher that "
            "is not used");
  both["TORCHELASTIC_RUN_ID"] = "x";
  EXPECT_EQ(refusal_of(both), "no error") << "torchrun under mpirun: one agent per machine";
}

TEST(LaunchedRank, FirstHostOfSlurmsLists) {
  for (const auto& [list, host] : {std::pair{"a", "a"},
                                   {"a,b", "a"},
                                   {"n[3-7]", "n3"},
                                   {"n[03,07],m", "n03"},
                                   {"n[2]-ib,x", "n2-ib"},
                                   {"", ""},
                                   {"n[", "n"}})
    EXPECT_EQ(first_host(list), host) << list;
}

}  // namespace
}  // namespace tern
