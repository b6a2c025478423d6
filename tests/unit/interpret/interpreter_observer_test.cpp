// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run shows to whoever watches it.
#include "interpreter_support.h"

#include "ir/interpret/observer.h"
#include "ir/interpret/values.h"

#include <set>

namespace dtile::interpret::testing {
namespace {

/// Writes each event as a line.
class Recorder : public Observer {
public:
  std::vector<std::string> lines;
  /// Addresses of accesses, by line.
  std::vector<const char *> places;

  void bodyStarts(const BodyId &body) override { add(body, body.space ? "starts" : "prologue"); }
  void bodyEnds(const BodyId &body) override { add(body, body.space ? "ends" : "prologue ends"); }
  void access(const BodyId &body, const ir::Op &op, AccessKind kind, const ViewVal &view,
              llvm::ArrayRef<uint64_t> after, uint64_t number) override {
    const char *names[] = {"reads", "writes", "updates"};
    add(body, std::string(names[int(kind)]) + " " + view.sizesText() + "@" +
                  std::to_string(view.rank) + list(after) + by(number));
    places.push_back(view.data);
  }
  void issues(const BodyId &body, const ir::Op &op, uint64_t number,
              llvm::ArrayRef<uint64_t> after) override {
    add(body, "issues " + op.info().text.str() + list(after) + by(number));
  }
  void completes(const BodyId &body, uint64_t number) override {
    add(body, "completes" + by(number));
  }
  void notifies(const BodyId &body, const ir::Op &, const SignalVal &cells,
                llvm::ArrayRef<uint64_t> after, uint64_t number) override {
    add(body, "notifies @" + std::to_string(cells.rank) + list(after) + by(number));
  }
  void waits(const BodyId &body, const ir::Op &, const SignalVal &, uint64_t number,
             std::optional<uint64_t>) override {
    add(body, "waits" + by(number));
  }
  void awaits(const BodyId &body, const ir::Op &, llvm::ArrayRef<uint64_t> operations) override {
    add(body, "awaits" + list(operations));
  }
  void quiet(const BodyId &body, const ir::Op &) override { add(body, "quiet"); }
  void fence(const BodyId &body, const ir::Op &) override { add(body, "fence"); }
  void arrives(const BodyId &body, const ir::Op &, uint64_t barrier) override {
    add(body, "arrives" + by(barrier));
  }
  void leaves(const BodyId &body, const ir::Op &, uint64_t barrier) override {
    add(body, "leaves" + by(barrier));
  }

  /// The lines of one rank.
  std::vector<std::string> of(int rank) const {
    std::vector<std::string> result;
    const std::string prefix = std::to_string(rank) + " ";
    for (const std::string &line : lines)
      if (line.starts_with(prefix))
        result.push_back(line.substr(prefix.size()));
    return result;
  }

private:
  void add(const BodyId &body, const std::string &what) {
    lines.push_back(std::to_string(body.rank) + " " + what);
  }
  static std::string list(llvm::ArrayRef<uint64_t> numbers) {
    std::string text;
    for (const uint64_t number : numbers)
      text += (text.empty() ? " after " : ",") + std::to_string(number);
    return text;
  }
  static std::string by(uint64_t number) {
    return number ? " #" + std::to_string(number) : std::string();
  }
};

constexpr const char *kExchange = R"(
kernel @k {
  %W = num_ranks : index
  %me = rank : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c4 = const {value = 4} : index
  %x = param @x %c4 {param = 0, mode = "in"} : view<i32, 1>
  %box = param @box %c4 {param = 1, mode = "symm"} : view<i32, 1>
  %s = signal_param @s {param = 2} : signal<0> {
    yield %c1
  }
  space @main {vars = []} {
    %t = add %me, %c1 : index
    %next = rem %t, %W : index
    %there = view.at %box, %next : view<i32, 1, remote>
    %sent = put %x, %there : token
    %cell = sig.at %s, %next : signal<0, remote>
    notify %cell, %sent
    %here = wait %s : acquire
    %v = load %box, %here : tile<4xi32>
    fence
    quiet
    barrier
    await %here
    yield
  }
  return
})";

TEST(Observer, SeesAccessesAndSynchronizationInOrder) {
  Program program(kExchange);
  Machine machine(*program.module, 2);
  Symmetric<int32_t> box(machine, 4);
  std::vector<int32_t> x{1, 2, 3, 4};
  const std::vector<std::vector<Arg>> args{{tensor(x), box.arg(0)}, {tensor(x), box.arg(1)}};
  Recorder recorder;
  machine.observe(&recorder);
  ASSERT_EQ(text(machine.launch("k", args)), "");
  EXPECT_EQ(recorder.of(1),
            (std::vector<std::string>{"prologue", "prologue ends", "starts", "issues put #1",
                                      "reads [4]@1 #1", "writes [4]@0 #1", "completes #1",
                                      "notifies @0 after 1", "waits #2", "completes #2",
                                      "reads [4]@1 after 2", "fence", "quiet", "arrives #1",
                                      "leaves #1", "awaits after 2", "completes #2", "ends"}));
  // The place that rank 0's put writes is the place that rank 1 loads.
  EXPECT_EQ(std::count(recorder.places.begin(), recorder.places.end(),
                       reinterpret_cast<const char *>(box.on(1))),
            2);
  machine.observe(nullptr);
  const size_t lines = recorder.lines.size();
  ASSERT_EQ(text(machine.launch("k", args)), "");
  EXPECT_EQ(recorder.lines.size(), lines);
}

TEST(Observer, SeesLateTransfersWhenTheyLand) {
  Program program(kExchange);
  Machine machine(*program.module, 1, {.landing = Schedule::Landing::AsLateAsAllowed});
  Symmetric<int32_t> box(machine, 4);
  std::vector<int32_t> x{1, 2, 3, 4};
  Recorder recorder;
  machine.observe(&recorder);
  ASSERT_EQ(text(machine.launch("k", {{tensor(x), box.arg(0)}})), "");
  const std::vector<std::string> lines = recorder.of(0);
  const auto at = [&](const char *line) { return std::find(lines.begin(), lines.end(), line); };
  EXPECT_LT(at("issues put #1"), at("writes [4]@0 #1"));
  EXPECT_LT(at("writes [4]@0 #1"), at("completes #1"));
  EXPECT_LT(at("completes #1"), at("notifies @0 after 1"));
}

TEST(Observer, BodiesHaveNumbersSpacesPositionsAndLaunches) {
  Program program(R"(
kernel @k {
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  space @main %c0, %c2, %c1 {vars = ["i"]} (%i: index) {
    yield
  }
  return
})");
  struct Bodies : Observer {
    std::set<uint64_t> numbers;
    std::vector<std::tuple<int64_t, int64_t>> starts;
    void bodyStarts(const BodyId &body) override {
      EXPECT_TRUE(numbers.insert(body.number).second);
      if (body.space) {
        EXPECT_EQ(body.space->get(ir::attr::name), "main");
        starts.emplace_back(body.launch, body.positions[0]);
      }
    }
  } bodies;
  Machine machine(*program.module, 1);
  machine.observe(&bodies);
  ASSERT_EQ(text(machine.launchRepeat("k", {{}}, 2)), "");
  EXPECT_EQ(bodies.starts,
            (std::vector<std::tuple<int64_t, int64_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

} // namespace
} // namespace dtile::interpret::testing
