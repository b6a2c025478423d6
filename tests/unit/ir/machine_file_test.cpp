// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine files are read as they were written, and nothing that is none is; numbers follow from
// times as the times follow from the numbers.
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
  std::minstd_rand random(1);
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

} // namespace
} // namespace dtile
