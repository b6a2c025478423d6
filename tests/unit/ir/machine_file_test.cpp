// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine files are read as they were written, and nothing that is none is; numbers follow from
// times as the times follow from the numbers.
#include "ir/machine/calibration.h"
#include "ir/machine/machine_file.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace dtile {
namespace {

std::optional<MachineFile> parse(const std::string &text, std::string *message = nullptr) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  auto read = parseMachineFile(sources, sources.add("machine.json", text), diagnostics);
  EXPECT_EQ(read.has_value(), !diagnostics.hasErrors());
  if (message && !diagnostics.all().empty())
    *message = diagnostics.all().front().message;
  return read;
}

MachineFile fileOf(const TargetFacts &base) {
  return {
      .dtilec = "0.1", .device = "A \"GPU\"", .date = "2026-11-28", .base = &base, .numbers = {}};
}

TEST(MachineFile, IsReadAsItWasWritten) {
  for (const TargetFacts &base : allMachines()) {
    MachineFile file = fileOf(base);
    for (const auto &[i, field] : llvm::enumerate(timingFields()))
      file.numbers.push_back({&field, std::min(field.most, field.least + double(i) + 0.5), 0.25});
    const auto read = parse(machineFileText(file));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->base, &base);
    const TargetFacts facts = read->facts();
    for (const MeasuredNumber &number : file.numbers)
      EXPECT_EQ(facts.timing.*number.field->number, number.value) << number.field->name.str();
    EXPECT_EQ(facts.processors, base.processors);
    EXPECT_EQ(differences(facts.timing, file.facts().timing), "");
  }
}

TEST(MachineFile, LeavesWhatItDoesNotName) {
  const TargetFacts &base = *findMachine("h200");
  MachineFile file = fileOf(base);
  file.numbers.push_back({findTimingField("launch"), 5000, 0});
  const TargetFacts facts = parse(machineFileText(file))->facts();
  EXPECT_EQ(differences(facts.timing, base.timing), "launch=5000.000000");
  EXPECT_TRUE(facts.sharesCode(base));
}

TEST(MachineFile, TableIsWithinItsRanges) {
  std::set<std::string> names;
  for (const TimingField &field : timingFields()) {
    EXPECT_TRUE(names.insert(field.name.str()).second);
    for (const TargetFacts &machine : allMachines()) {
      EXPECT_GE(machine.timing.*field.number, field.least) << field.name.str();
      EXPECT_LE(machine.timing.*field.number, field.most) << field.name.str();
    }
  }
}

TEST(MachineFile, SaysWhatIsWrong) {
  const auto message = [](const std::string &text) {
    std::string made;
    EXPECT_FALSE(parse(text, &made));
    return made;
  };
  EXPECT_EQ(message(""), "the machine file ends where `{` of the file is missing");
  EXPECT_EQ(message("{}"), "the machine file does not begin with `\"dtile machine\": 1`");
  EXPECT_EQ(message("{\"base\": \"h200\"}"),
            "the machine file does not begin with `\"dtile machine\": 1`");
  EXPECT_EQ(message("{\"dtile machine\": 1, \"base\": \"h200\"} x"),
            "the machine file goes on behind its last `}`");
  EXPECT_EQ(message("{\"dtile machine\": 1, \"speed\": 1}"),
            "the machine file has no `speed`; there is dtilec, device, date, base and fields");
  EXPECT_EQ(message("{\"dtile machine\": 1, \"fields\": {\"launch\": {\"value\": 1}}}"),
            "the machine file wants `value` and `unit` for `launch`");
  EXPECT_EQ(message("{\"dtile machine\": 1, \"date\": \"2026"),
            "the machine file has a string that does not end");
  EXPECT_EQ(message("{\"dtile machine\": 1, \"fields\": {\"launch\": {\"value\": 1e999"),
            "the machine file wants a number for `launch`");
}

/// No text makes the reader fail otherwise than by a message.
TEST(MachineFile, ChangedTextsAreReadOrRefused) {
  MachineFile file = fileOf(*findMachine("h200"));
  for (const TimingField &field : timingFields())
    file.numbers.push_back({&field, field.most, 0.5});
  const std::string text = machineFileText(file);
  const std::string pieces = "{}[]\":,\\\n 019-+.eEx\xff";
  // --gtest_random_seed gives other changes.
  std::minstd_rand random(unsigned(testing::UnitTest::GetInstance()->random_seed()) + 1);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % (changed.size() + 1);
      switch (random() % 4) {
      case 0:
        changed.resize(at);
        break;
      case 1:
        changed.insert(at, 1 + random() % 3, pieces[random() % pieces.size()]);
        break;
      case 2:
        changed.erase(at, random() % 8);
        break;
      default:
        changed.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    (void)parse(changed);
  }
  (void)parse(std::string(1'000'000, '['));
  (void)parse("{\"dtile machine\": 1, \"fields\": " + std::string(1'000'000, '{'));
}

TEST(Calibration, NumbersFollowFromTimes) {
  for (const char *name : {"host", "h200", "a100", "mi300x"}) {
    const TargetFacts &machine = *findMachine(name);
    std::set<std::string> fields;
    for (const Measurement &one : measurementsOf(machine, 2)) {
      ASSERT_NE(one.field, nullptr) << one.kernel;
      EXPECT_TRUE(fields.insert(one.field->name.str()).second);
      // More work in the same time, or in less, is no measurement.
      if (!one.large.empty()) {
        EXPECT_FALSE(one.fit(1e6, 1e6, machine.timing)) << one.kernel;
        EXPECT_FALSE(one.fit(2e6, 1e6, machine.timing)) << one.kernel;
      }
      const auto slow = one.fit(1e4, 3e7, machine.timing), fast = one.fit(1e4, 2e7, machine.timing);
      if (one.large.empty() || !slow || !fast)
        continue;
      EXPECT_EQ(llvm::StringRef(one.field->unit) == "ns", *slow > *fast) << one.kernel;
    }
    EXPECT_EQ(measurementsOf(machine, 1).size() + 4, fields.size());
    EXPECT_EQ(llvm::count_if(measurementsOf(machine, 2), [](auto &one) { return one.needsPeers; }),
              4);
    EXPECT_EQ(fields.count("groupRate"), machine.groupRows > 0 ? 1u : 0u);
    EXPECT_EQ(fields.count("bulkRate"), machine.copyBytes > 0 ? 1u : 0u);
  }
}

TEST(Calibration, ClosedFormsInvertTheModel) {
  const TargetFacts &machine = *findMachine("h200");
  const Timing &timing = machine.timing;
  const auto fit = [&](const char *field, double small, double large) {
    const auto all = measurementsOf(machine, 2);
    const auto one = llvm::find_if(all, [&](const auto &m) { return m.field->name == field; });
    return one->fit(small, large, timing).value_or(0);
  };
  // 40 Mi floats.
  EXPECT_NEAR(fit("memoryRate", 9000, 9000 + 40 * 1048576.0 * 4 / timing.memoryRate),
              timing.memoryRate, 1e-6 * timing.memoryRate);
  EXPECT_EQ(fit("notifyLatency", 7000, 7000 + 512 * timing.notifyLatency), timing.notifyLatency);
  // 112 rounds of 64 columns, each by four instructions.
  const double round = 128 * 256 * 64 / timing.groupRate * (256 + timing.groupHalfColumns) / 256 +
                       timing.tmaRound + 4 * timing.groupIssue;
  EXPECT_NEAR(fit("groupRate", 9000, 9000 + 112 * round), timing.groupRate, 1e-3);
  EXPECT_EQ(fit("peerLatency", 7000, 7000 + 512 * timing.peerLatency), timing.peerLatency);
}

} // namespace
} // namespace dtile
