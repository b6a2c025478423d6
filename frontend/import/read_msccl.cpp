// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads MSCCL's XML: algo, gpu, tb, step. A thread block sends to at most one rank and hears from
// at most one. The sends and receives of a connection (two ranks and a channel) pair in their
// order.
#include "frontend/import/xml.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <set>

namespace dtile::imported {

namespace {

// What a step does, of its type: whether it receives, adds a chunk of its own, stores, sends.
struct StepType {
  bool receives = false;
  bool reads = false;
  bool addsTarget = false;
  bool stores = false;
  bool sends = false;
};

std::optional<StepType> stepType(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<StepType>>(name)
      .Case("nop", StepType{})
      .Case("s", StepType{.reads = true, .sends = true})
      .Case("r", StepType{.receives = true, .stores = true})
      .Case("cpy", StepType{.reads = true, .stores = true})
      .Case("re", StepType{.reads = true, .addsTarget = true, .stores = true})
      .Case("rcs", StepType{.receives = true, .stores = true, .sends = true})
      .Case("rrc", StepType{.receives = true, .reads = true, .stores = true})
      .Case("rrs", StepType{.receives = true, .reads = true, .sends = true})
      .Case("rrcs", StepType{.receives = true, .reads = true, .stores = true, .sends = true})
      .Default(std::nullopt);
}

// One side of a message, in the order of its connection.
struct End {
  size_t block;
  size_t step;
  int64_t count;
};

// The messages of two ranks on a channel.
struct Connection {
  std::vector<End> sends;
  std::vector<End> receives;
};

// Source rank, target rank, channel.
using ConnectionKey = std::tuple<int, int, int64_t>;

class MscclReader {
public:
  explicit MscclReader(Reader &reader) : reader_(reader) {}

  std::optional<Algorithm> read() {
    const std::optional<XmlElement> root = readXml(reader_);
    if (!root || !readHead(*root))
      return std::nullopt;
    std::set<int64_t> ids;
    for (const XmlElement &gpu : root->children)
      readGpu(gpu, ids);
    if (!isFine_)
      return std::nullopt;
    if (int64_t(ids.size()) != algorithm_.ranks) {
      reader_.diags.report(root->place, diag::import_value, "ngpus",
                           std::to_string(algorithm_.ranks),
                           "the number of `gpu` elements, which is " + std::to_string(ids.size()));
      return std::nullopt;
    }
    // Steps are complete, and stay where they are, when others refer to them.
    pairMessages();
    addDependencies();
    if (!isFine_)
      return std::nullopt;
    return std::move(algorithm_);
  }

private:
  struct Dependency {
    size_t block;
    size_t step;
    int64_t onBlock;
    int64_t onStep;
  };

  Reader &reader_;
  Algorithm algorithm_;
  std::map<ConnectionKey, Connection> connections_;
  std::vector<Dependency> dependencies_;
  // Steps that say that others wait for them.
  std::set<std::pair<size_t, size_t>> awaited_;
  size_t steps_ = 0;
  bool isFine_ = true;

  template <typename... Args> void fail(SourceRange place, diag::Id id, Args &&...args) {
    isFine_ = false;
    reader_.diags.report(place, id, std::forward<Args>(args)...);
  }

  // An attribute as an integer from `least` to `most`; of none, `otherwise` where there is one.
  std::optional<int64_t> number(const XmlElement &element, llvm::StringRef name, int64_t least,
                                int64_t most, std::optional<int64_t> otherwise = std::nullopt) {
    const std::string *text = element.attribute(name);
    if (!text) {
      if (!otherwise)
        fail(element.place, diag::import_missing, "`" + element.name + "`", name);
      return otherwise;
    }
    int64_t value = 0;
    if (!llvm::StringRef(*text).getAsInteger(10, value) && value >= least && value <= most)
      return value;
    fail(element.place, diag::import_value, name, *text,
         "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }

  bool readHead(const XmlElement &root) {
    if (root.name != "algo") {
      fail(root.place, diag::import_not_understood, "`" + root.name + "`",
           "an algorithm of MSCCL begins with `algo`");
      return false;
    }
    algorithm_.place = root.place;
    algorithm_.format = "MSCCL XML";
    if (const std::string *name = root.attribute("name"))
      algorithm_.name = *name;
    const std::string *collective = root.attribute("coll");
    if (!collective) {
      fail(root.place, diag::import_missing, "`algo`", "coll");
      return false;
    }
    const auto known = collectiveOf(*collective);
    if (!known) {
      fail(root.place, diag::import_not_understood, "collective `" + *collective + "`",
           "there are allreduce, allgather, reduce_scatter, alltoall and broadcast");
      return false;
    }
    algorithm_.collective = *known;
    if (const std::string *redop = root.attribute("redop");
        redop && *redop != "sum" && *redop != "nop") {
      fail(root.place, diag::import_not_understood, "reduction `" + *redop + "`",
           "chunks are added");
      return false;
    }
    const auto ranks = number(root, "ngpus", 1, kMaxRanks);
    const auto chunks = number(root, "nchunksperloop", 1, kMaxChunks);
    const auto inPlace = number(root, "inplace", 0, 1, 0);
    if (!ranks || !chunks || !inPlace)
      return false;
    algorithm_.ranks = int(*ranks);
    algorithm_.inPlace = *inPlace != 0;
    // `nchunksperloop` divides the larger of input and output.
    algorithm_.inputChunks = *chunks;
    if (*known == Collective::AllGather)
      algorithm_.inputChunks = *chunks % *ranks == 0 ? *chunks / *ranks : 0;
    const auto output = outputChunksOf(*known, algorithm_.inputChunks, *ranks);
    if (algorithm_.inputChunks == 0 || !output) {
      fail(root.place, diag::import_value, "nchunksperloop", *chunks,
           "a multiple of the number of ranks for this collective");
      return false;
    }
    algorithm_.outputChunks = *output;
    return true;
  }

  void readGpu(const XmlElement &gpu, std::set<int64_t> &ids) {
    if (gpu.name != "gpu")
      return fail(gpu.place, diag::import_not_understood, "`" + gpu.name + "`",
                  "`algo` has `gpu` elements");
    const auto id = number(gpu, "id", 0, algorithm_.ranks - 1);
    const auto input = number(gpu, "i_chunks", 0, kMaxChunks, 0);
    const auto output = number(gpu, "o_chunks", 0, kMaxChunks, 0);
    const auto scratch = number(gpu, "s_chunks", 0, kMaxChunks, 0);
    if (!id || !input || !output || !scratch)
      return;
    if (!ids.insert(*id).second)
      return fail(gpu.place, diag::import_value, "id", *id, "the number of one `gpu` only");
    checkChunks(gpu, "i_chunks", *input, algorithm_.inputChunks);
    checkChunks(gpu, "o_chunks", *output, algorithm_.outputChunks);
    algorithm_.scratchChunks = std::max(algorithm_.scratchChunks, *scratch);
    std::set<int64_t> blocks;
    for (const XmlElement &tb : gpu.children)
      readBlock(tb, int(*id), *scratch, blocks);
  }

  // In place, a file may count the chunks of the one buffer for both.
  void checkChunks(const XmlElement &gpu, llvm::StringRef name, int64_t given, int64_t expected) {
    const int64_t most =
        algorithm_.inPlace ? std::max(algorithm_.inputChunks, algorithm_.outputChunks) : expected;
    if (given > most)
      fail(gpu.place, diag::import_value, name, given,
           "at most " + std::to_string(most) + ", by `nchunksperloop` and the collective");
  }

  void readBlock(const XmlElement &tb, int rank, int64_t scratchChunks, std::set<int64_t> &ids) {
    if (tb.name != "tb")
      return fail(tb.place, diag::import_not_understood, "`" + tb.name + "`",
                  "`gpu` has `tb` elements");
    const auto id = number(tb, "id", 0, kMaxBlocks - 1);
    const auto send = number(tb, "send", -1, algorithm_.ranks - 1);
    const auto receive = number(tb, "recv", -1, algorithm_.ranks - 1);
    const auto channel = number(tb, "chan", -1, kMaxBlocks, 0);
    if (!id || !send || !receive || !channel)
      return;
    if (!ids.insert(*id).second)
      return fail(tb.place, diag::import_value, "id", *id, "the number of one `tb` of a `gpu`");
    if (*send == rank || *receive == rank)
      return fail(tb.place, diag::import_value, *send == rank ? "send" : "recv", rank,
                  "another rank than the `gpu`");
    const size_t index = algorithm_.blocks.size();
    algorithm_.blocks.push_back({.place = tb.place,
                                 .rank = rank,
                                 .id = *id,
                                 .peer = int(*send >= 0 ? *send : *receive),
                                 .steps = {}});
    for (const XmlElement &step : tb.children)
      if (!readStep(step, index, int(*send), int(*receive), *channel, scratchChunks))
        return;
  }

  bool readStep(const XmlElement &element, size_t block, int send, int receive, int64_t channel,
                int64_t scratchChunks) {
    if (element.name != "step") {
      fail(element.place, diag::import_not_understood, "`" + element.name + "`",
           "`tb` has `step` elements");
      return false;
    }
    std::vector<Step> &steps = algorithm_.blocks[block].steps;
    if (++steps_ > kMaxSteps) {
      fail(element.place, diag::import_not_understood, "this algorithm",
           "it has more than " + std::to_string(kMaxSteps) + " steps");
      return false;
    }
    const std::string *typeName = element.attribute("type");
    if (!typeName) {
      fail(element.place, diag::import_missing, "`step`", "type");
      return false;
    }
    const std::optional<StepType> type = stepType(*typeName);
    if (!type) {
      fail(element.place, diag::import_not_understood, "step `" + *typeName + "`",
           "there are s, r, cpy, re, rcs, rrc, rrs, rrcs and nop");
      return false;
    }
    const auto number0 = number(element, "s", 0, int64_t(kMaxSteps));
    const auto onBlock = number(element, "depid", -1, kMaxBlocks - 1, -1);
    const auto onStep = number(element, "deps", -1, int64_t(kMaxSteps), -1);
    const auto isAwaited = number(element, "hasdep", 0, 1, 0);
    const auto count = type->receives || type->reads ? number(element, "cnt", 1, kMaxChunks, 1)
                                                     : std::optional<int64_t>(0);
    if (!number0 || !onBlock || !onStep || !isAwaited || !count)
      return false;
    if (*number0 != int64_t(steps.size())) {
      fail(element.place, diag::import_value, "s", *number0,
           "the number of the step in its `tb`, which is " + std::to_string(steps.size()));
      return false;
    }
    if (type->sends && send < 0) {
      fail(element.place, diag::import_pairing, "this sends, and its `tb` has `send=\"-1\"`");
      return false;
    }
    if (type->receives && receive < 0) {
      fail(element.place, diag::import_pairing, "this receives, and its `tb` has `recv=\"-1\"`");
      return false;
    }
    Step step{.place = element.place};
    const int rank = algorithm_.blocks[block].rank;
    const End end{.block = block, .step = steps.size(), .count = *count};
    // Sums begin with what the rank has.
    if (type->reads) {
      const auto source = region(element, "src", rank, *count, scratchChunks);
      if (!source)
        return false;
      step.sources.push_back(*source);
    }
    if (type->receives)
      connections_[{receive, rank, channel}].receives.push_back(end);
    if (type->stores) {
      const auto target = region(element, "dst", rank, *count, scratchChunks);
      if (!target)
        return false;
      if (type->addsTarget)
        step.sources.insert(step.sources.begin(), *target);
      step.targets.push_back(*target);
    }
    if (type->sends)
      connections_[{rank, send, channel}].sends.push_back(end);
    if (*onBlock >= 0)
      dependencies_.push_back(
          {.block = block, .step = steps.size(), .onBlock = *onBlock, .onStep = *onStep});
    if (*isAwaited != 0)
      awaited_.emplace(block, steps.size());
    steps.push_back(std::move(step));
    return true;
  }

  // `srcbuf` and `srcoff`, or those of dst.
  std::optional<Region> region(const XmlElement &step, const std::string &side, int rank,
                               int64_t count, int64_t scratchChunks) {
    const std::string *name = step.attribute(side + "buf");
    if (!name) {
      fail(step.place, diag::import_missing, "`step`", side + "buf");
      return std::nullopt;
    }
    Region region{.rank = rank, .count = count};
    int64_t chunks = 0;
    if (*name == "i") {
      region.buffer = Buffer::Input;
      chunks = algorithm_.inputChunks;
    } else if (*name == "o") {
      region.buffer = Buffer::Output;
      chunks = algorithm_.outputChunks;
    } else if (*name == "s") {
      region.buffer = Buffer::Scratch;
      chunks = scratchChunks;
    } else {
      fail(step.place, diag::import_value, side + "buf", *name, "i, o or s");
      return std::nullopt;
    }
    const auto offset = number(step, side + "off", 0, kMaxChunks);
    if (!offset)
      return std::nullopt;
    if (*offset + count > chunks) {
      fail(step.place, diag::import_region, *offset, *offset + count, *name, rank, chunks);
      return std::nullopt;
    }
    region.index = *offset;
    return inOneBuffer(algorithm_, region);
  }

  [[nodiscard]] Step &stepOf(const End &end) {
    return algorithm_.blocks[end.block].steps[end.step];
  }

  // Each connection has one thread block on each side, and as many sends as receives.
  void pairMessages() {
    for (auto &[key, connection] : connections_) {
      const auto &[from, to, channel] = key;
      const std::string name = "from rank " + std::to_string(from) + " to rank " +
                               std::to_string(to) + " on channel " + std::to_string(channel);
      for (const auto *ends : {&connection.sends, &connection.receives})
        for (const End &end : *ends)
          if (end.block != ends->front().block)
            return fail(stepOf(end).place, diag::import_pairing,
                        "two thread blocks share the connection " + name);
      const size_t pairs = std::min(connection.sends.size(), connection.receives.size());
      if (connection.sends.size() > pairs)
        return fail(stepOf(connection.sends[pairs]).place, diag::import_pairing,
                    "nothing receives this message " + name);
      if (connection.receives.size() > pairs)
        return fail(stepOf(connection.receives[pairs]).place, diag::import_pairing,
                    "nothing is sent for this to receive " + name);
      for (size_t i = 0; i < pairs; ++i)
        pair(connection.sends[i], connection.receives[i], to);
    }
  }

  void pair(const End &send, const End &receive, int to) {
    if (send.count != receive.count) {
      isFine_ = false;
      reader_.diags
          .report(stepOf(receive).place, diag::import_pairing,
                  "this receives " + std::to_string(receive.count) + " chunks, and " +
                      std::to_string(send.count) + " are sent")
          .note(stepOf(send).place, diag::note_import_sent);
      return;
    }
    const int event = addEvent(algorithm_, EventKind::Sent, to, send.count);
    const Region box{.buffer = Buffer::Box, .rank = to, .count = send.count, .event = event};
    stepOf(send).targets.push_back(box);
    stepOf(send).notifies.push_back(event);
    stepOf(receive).waits.push_back(event);
    stepOf(receive).sources.push_back(box);
  }

  void addDependencies() {
    std::map<std::pair<int, int64_t>, size_t> blocks;
    for (size_t i = 0; i < algorithm_.blocks.size(); ++i)
      blocks[{algorithm_.blocks[i].rank, algorithm_.blocks[i].id}] = i;
    // Steps that several wait for have one event.
    std::map<std::pair<size_t, size_t>, int> events;
    for (const Dependency &dependency : dependencies_) {
      const int rank = algorithm_.blocks[dependency.block].rank;
      Step &step = algorithm_.blocks[dependency.block].steps[dependency.step];
      const auto found = blocks.find({rank, dependency.onBlock});
      if (found == blocks.end()) {
        fail(step.place, diag::import_value, "depid", dependency.onBlock,
             "the id of a `tb` of rank " + std::to_string(rank));
        continue;
      }
      ThreadBlock &other = algorithm_.blocks[found->second];
      if (dependency.onStep < 0 || dependency.onStep >= int64_t(other.steps.size())) {
        fail(step.place, diag::import_value, "deps", dependency.onStep,
             "the number of a step of `tb` " + std::to_string(dependency.onBlock) + ", which has " +
                 std::to_string(other.steps.size()));
        continue;
      }
      const std::pair<size_t, size_t> on{found->second, size_t(dependency.onStep)};
      Step &awaited = other.steps[on.second];
      if (!awaited_.contains(on)) {
        isFine_ = false;
        reader_.diags
            .report(step.place, diag::import_pairing,
                    "this waits for a step that tells nobody when it is over")
            .note(awaited.place, diag::note_import_hasdep);
        continue;
      }
      const auto [event, isNew] = events.try_emplace(on, 0);
      if (isNew) {
        event->second = addEvent(algorithm_, EventKind::Passed, rank);
        awaited.notifies.push_back(event->second);
      }
      // Before it receives.
      step.waits.insert(step.waits.begin(), event->second);
    }
  }
};

} // namespace

std::optional<Algorithm> readMsccl(Reader &reader) { return MscclReader(reader).read(); }

} // namespace dtile::imported
