// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place in a job, from what launchers set.
#include "backend/runtime/job/digest.h"
#include "backend/runtime/job/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

/// Variables of the environment, for as long as it lives; nothing else that a launcher sets.
class Environment {
public:
  explicit Environment(const std::vector<std::pair<const char *, const char *>> &set) {
    for (const char *name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_NODEID",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_NODELIST",
                             "SLURM_TASKS_PER_NODE",
                             "DTILE_JOB_ADDRESS",
                             "DTILE_JOB_PORT",
                             "DTILE_JOB_INTERFACE",
                             "DTILE_JOB_KEY"})
      unsetenv(name);
    for (const auto &[name, value] : set)
      setenv(name, value, 1);
    status = placeFromEnvironment(&place);
  }

  JobPlace place;
  Status status;
};

TEST(JobPlace, is_that_of_torchrun) {
  EXPECT_THAT(Environment({}).status.message, HasSubstr("belongs to no job"));
  EXPECT_THAT(Environment({{"RANK", "3"}, {"WORLD_SIZE", "4"}}).status.message,
              HasSubstr("either of MASTER_PORT and TORCHELASTIC_RUN_ID is not"));
  const Environment two({{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "gpu1"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "night"}});
  ASSERT_TRUE(two.status.ok()) << two.status.message;
  EXPECT_EQ(two.place.rank, 3);
  EXPECT_EQ(two.place.ranks, 4);
  EXPECT_EQ(two.place.localRank, 1);
  EXPECT_TRUE(two.place.hasSeveralHosts());
  EXPECT_EQ(two.place.address, "gpu1");
  // MASTER_PORT itself is torch's.
  EXPECT_EQ(two.place.port, 29501);
  EXPECT_EQ(two.place.name, "night-gpu1-29500-");
  const Environment one(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(one.status.ok());
  EXPECT_FALSE(one.place.hasSeveralHosts());
}

TEST(JobPlace, takes_our_own_variables_first) {
  const Environment job({{"RANK", "0"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_WORLD_SIZE", "1"},
                         {"MASTER_ADDR", "gpu1"},
                         {"MASTER_PORT", "29500"},
                         {"DTILE_JOB_ADDRESS", "fe80::7%ib0"},
                         {"DTILE_JOB_PORT", "4444"},
                         {"DTILE_JOB_INTERFACE", "ib0"},
                         {"DTILE_JOB_KEY", "secret"}});
  ASSERT_TRUE(job.status.ok());
  EXPECT_EQ(job.place.address, "fe80::7%ib0");
  EXPECT_EQ(job.place.port, 4444);
  EXPECT_EQ(job.place.interface, "ib0");
  EXPECT_EQ(job.place.key, "secret");
}

TEST(JobPlace, is_that_of_mpirun) {
  std::vector<std::pair<const char *, const char *>> set = {{"OMPI_COMM_WORLD_RANK", "2"},
                                                            {"OMPI_COMM_WORLD_SIZE", "4"},
                                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                            {"PMIX_NAMESPACE", "77"}};
  EXPECT_THAT(
      Environment(set).status.message,
      HasSubstr("the job has 4 ranks, 2 of them on this host, but its processes do not know "
                "where rank 0 is: set MASTER_ADDR"));
  set.emplace_back("MASTER_ADDR", "10.0.0.1");
  const Environment first(set), again(set);
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(first.place.localRank, 0);
  // The port follows from the job's number.
  EXPECT_EQ(first.place.port, again.place.port);
  EXPECT_GE(first.place.port, 20000);
  EXPECT_LT(first.place.port, 32000);
}

TEST(JobPlace, is_that_of_srun) {
  const auto place = [](const char *node, const char *list) {
    return Environment({{"SLURM_PROCID", "5"},
                        {"SLURM_NTASKS", "8"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_JOB_ID", "123"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_NODEID", node},
                        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),2"},
                        {"SLURM_STEP_NODELIST", list}})
        .place;
  };
  EXPECT_EQ(place("1", "gpu[07-09,12],login").localRanks, 3);
  EXPECT_EQ(place("2", "gpu[07-09,12],login").localRanks, 2);
  EXPECT_EQ(place("0", "gpu[07-09,12],login").address, "gpu07");
  EXPECT_EQ(place("0", "n1,n2").address, "n1");
  EXPECT_EQ(place("0", "alone").address, "alone");
  EXPECT_EQ(place("0", "alone").name, "123-0-");
}

TEST(JobPlace, is_that_of_pmi_and_pmix) {
  const Environment pmi(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(pmi.status.ok());
  EXPECT_EQ(pmi.place.rank, 1);
  EXPECT_FALSE(pmi.place.hasSeveralHosts());
  const Environment pmix({{"PMIX_RANK", "1"}, {"WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "x"}});
  ASSERT_TRUE(pmix.status.ok());
  EXPECT_EQ(pmix.place.rank, 1);
}

TEST(JobPlace, refuses_what_is_no_number) {
  const auto message = [](const char *rank, const char *ranks, const char *port) {
    return Environment({{"RANK", rank}, {"WORLD_SIZE", ranks}, {"MASTER_PORT", port}})
        .status.message;
  };
  EXPECT_THAT(message("4", "4", "1"), HasSubstr("RANK is `4`, which is no number from 0 to 3"));
  EXPECT_THAT(message("one", "4", "1"), HasSubstr("RANK is `one`"));
  EXPECT_THAT(message("0", "-2", "1"), HasSubstr("WORLD_SIZE is `-2`"));
  EXPECT_THAT(message("0", "2", "70000"), HasSubstr("MASTER_PORT is `70000`"));
}

TEST(JobPlace, is_named_by_the_caller) {
  JobPlace place;
  place.ranks = 4;
  ASSERT_TRUE(placeFromName("tcp://[fe80::1%eth0]:4444/night", &place).ok());
  EXPECT_EQ(place.address, "fe80::1%eth0");
  EXPECT_EQ(place.port, 4444);
  EXPECT_EQ(place.name, "night");
  EXPECT_TRUE(place.hasSeveralHosts());
  JobPlace here;
  ASSERT_TRUE(placeFromName("night", &here).ok());
  EXPECT_FALSE(here.hasSeveralHosts());
  for (const char *name : {"tcp://gpu1/night", "tcp://gpu1:0/night", "tcp://gpu1:5x/night",
                           "tcp://gpu1:5", "tcp://:5/night"})
    EXPECT_THAT(placeFromName(name, &here).message, HasSubstr("tcp://ADDRESS:PORT/NAME")) << name;
}

std::string hex(const Digest &digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

// FIPS 180-4's examples, and those of RFC 4231.
TEST(Digest, is_the_standard_one) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

} // namespace
} // namespace dtile::test
