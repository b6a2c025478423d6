// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads MSCCL++'s JSON plans: gpus, threadblocks, ops. Thread blocks write to buffers of peers, and
// order this by signals of channels. The n-th channel from a rank to another belongs to the n-th
// one back. Signals and waits of a channel pair in their order.
#include "frontend/import/json.h"

#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <set>

namespace dtile::imported {

namespace {

using Kind = JsonValue::Kind;

enum class OpKind : uint8_t {
  Nothing,
  Barrier,
  Copy,
  // Sums of plain chunks, or of packets: some sources and targets are remote.
  Sum,
  Signal,
  Wait,
  Acquire,
  Release,
  Pipeline,
};

// What an operation does with its sources and targets.
struct OpRow {
  OpKind kind = OpKind::Nothing;
  bool readsPackets = false;
  bool writesPackets = false;
  bool signals = false;
};

std::optional<OpRow> opRow(llvm::StringRef name) {
  constexpr OpRow kSumOfPackets{.kind = OpKind::Sum, .readsPackets = true, .writesPackets = true};
  return llvm::StringSwitch<std::optional<OpRow>>(name)
      .Cases({"nop", "flush"}, OpRow{})
      .Case("barrier", OpRow{.kind = OpKind::Barrier})
      .Cases({"put", "get", "copy"}, OpRow{.kind = OpKind::Copy})
      .Cases({"pws", "pwsf"}, OpRow{.kind = OpKind::Copy, .signals = true})
      .Cases({"ppkt", "cpkt"}, OpRow{.kind = OpKind::Copy, .writesPackets = true})
      .Case("rppkt", OpRow{.kind = OpKind::Copy, .readsPackets = true, .writesPackets = true})
      .Case("upkt", OpRow{.kind = OpKind::Copy, .readsPackets = true})
      .Cases({"re", "res", "rre", "rres"}, OpRow{.kind = OpKind::Sum})
      .Cases({"repkt", "respkt", "recpkt", "recspkt"}, kSumOfPackets)
      .Cases({"signal", "rlxsignal"}, OpRow{.kind = OpKind::Signal})
      .Cases({"wait", "rlxwait"}, OpRow{.kind = OpKind::Wait})
      .Case("sem_acquire", OpRow{.kind = OpKind::Acquire})
      .Case("sem_release", OpRow{.kind = OpKind::Release})
      .Case("pipeline", OpRow{.kind = OpKind::Pipeline})
      .Default(std::nullopt);
}

enum class ChannelType : uint8_t { Memory, Port };

struct Channel {
  int peer;
  /// Which of the rank's channels of this type to this peer.
  int64_t ordinal;
};

struct RemoteBuffer {
  int rank;
  Buffer buffer;
};

// One rank's tables, which its operations name by position.
struct Gpu {
  const JsonValue *value = nullptr;
  std::map<ChannelType, std::vector<Channel>> channels;
  std::vector<RemoteBuffer> buffers;
  std::vector<int64_t> semaphores;
  int64_t scratchChunks = 0;
};

// One thread block's choice of these.
struct Scope {
  Gpu &gpu;
  size_t block;
  std::map<ChannelType, std::vector<Channel>> channels;
  std::map<ChannelType, std::vector<RemoteBuffer>> buffers;
};

struct StepRef {
  size_t block;
  size_t step;
};

// Whoever notifies, and whoever waits, in their order.
struct Pairing {
  std::vector<StepRef> notifies;
  std::vector<StepRef> waits;
};

class PlanReader {
public:
  explicit PlanReader(Reader &reader) : reader_(reader) {}

  std::optional<Algorithm> read() {
    const std::optional<JsonValue> root = readJson(reader_);
    if (!root || !readHead(*root))
      return std::nullopt;
    // Tables first: an operation may name a rank that comes later.
    const JsonValue &gpus = *root->member("gpus");
    for (size_t rank = 0; isFine_ && rank < gpus.items.size(); ++rank)
      readTables(gpus.items[rank], int(rank));
    for (size_t rank = 0; isFine_ && rank < gpus.items.size(); ++rank)
      readBlocks(int(rank));
    if (isFine_)
      pairEvents();
    if (!isFine_)
      return std::nullopt;
    return std::move(algorithm_);
  }

private:
  Reader &reader_;
  Algorithm algorithm_;
  std::vector<Gpu> gpus_;
  // Sender, receiver, type and ordinal of a channel.
  std::map<std::tuple<int, int, ChannelType, int64_t>, Pairing> signals_;
  // Rank and number.
  std::map<std::pair<int, int64_t>, Pairing> semaphores_;
  std::map<std::pair<int, int64_t>, std::map<size_t, std::vector<StepRef>>> barriers_;
  // For how many thread blocks operations say that a barrier is.
  std::map<std::pair<int, int64_t>, std::set<int64_t>> meets_;
  // Each barrier's event, by block and step.
  std::map<std::pair<size_t, size_t>, int> barrierSteps_;
  // Rank and chunk.
  std::map<std::pair<int, int64_t>, int> packets_;
  size_t steps_ = 0;
  bool isFine_ = true;

  template <typename... Args> void fail(SourceRange place, diag::Id id, Args &&...args) {
    isFine_ = false;
    reader_.diags.report(place, id, std::forward<Args>(args)...);
  }

  // The text of a value, for messages.
  std::string textOf(const JsonValue &value) {
    const llvm::StringRef text = reader_.sources.text(value.place);
    constexpr size_t kLongest = 40;
    return text.size() <= kLongest ? text.str() : text.take_front(kLongest).str() + "…";
  }

  const JsonValue *member(const JsonValue &object, llvm::StringRef what, llvm::StringRef name,
                          Kind kind, llvm::StringRef kindName) {
    const JsonValue *found = object.member(name);
    if (!found)
      fail(object.place, diag::import_missing, what, name);
    else if (found->kind != kind)
      fail(found->place, diag::import_value, name, textOf(*found), kindName);
    else
      return found;
    return nullptr;
  }

  const JsonValue *array(const JsonValue &object, llvm::StringRef what, llvm::StringRef name) {
    return member(object, what, name, Kind::Array, "an array");
  }

  std::optional<int64_t> number(const JsonValue &value, llvm::StringRef name, int64_t least,
                                int64_t most) {
    if (value.kind == Kind::Integer && value.integer >= least && value.integer <= most)
      return value.integer;
    fail(value.place, diag::import_value, name, textOf(value),
         most < least ? "a number of nothing, as there are none"
                      : "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }

  std::optional<int64_t> numberOf(const JsonValue &object, llvm::StringRef what,
                                  llvm::StringRef name, int64_t least, int64_t most) {
    if (const JsonValue *value = object.member(name))
      return number(*value, name, least, most);
    fail(object.place, diag::import_missing, what, name);
    return std::nullopt;
  }

  bool readHead(const JsonValue &root) {
    algorithm_.place = root.place;
    algorithm_.format = "MSCCL++ JSON plan";
    if (root.kind != Kind::Object) {
      fail(root.place, diag::import_malformed, "a plan", "it is no object");
      return false;
    }
    if (const JsonValue *name = root.member("name"); name && name->kind == Kind::String)
      algorithm_.name = name->text;
    const JsonValue *collective = member(root, "the plan", "collective", Kind::String, "a name");
    const JsonValue *inPlace = member(root, "the plan", "inplace", Kind::Bool, "true or false");
    const JsonValue *gpus = array(root, "the plan", "gpus");
    if (!collective || !inPlace || !gpus)
      return false;
    const auto known = collectiveOf(collective->text);
    if (!known) {
      fail(collective->place, diag::import_not_understood, "collective `" + collective->text + "`",
           "there are allreduce, allgather, reducescatter, alltoall and broadcast");
      return false;
    }
    algorithm_.collective = *known;
    algorithm_.inPlace = inPlace->truth;
    if (gpus->items.empty() || int64_t(gpus->items.size()) > kMaxRanks) {
      fail(gpus->place, diag::import_value, "gpus", std::to_string(gpus->items.size()) + " ranks",
           "1 to " + std::to_string(kMaxRanks) + " ranks");
      return false;
    }
    algorithm_.ranks = int(gpus->items.size());
    gpus_.resize(gpus->items.size());
    return true;
  }

  void readTables(const JsonValue &value, int rank) {
    Gpu &gpu = gpus_[size_t(rank)];
    gpu.value = &value;
    const auto id = numberOf(value, "this rank", "id", rank, rank);
    const auto input = numberOf(value, "this rank", "input_chunks", 0, kMaxChunks);
    const auto output = numberOf(value, "this rank", "output_chunks", 0, kMaxChunks);
    const auto scratch = numberOf(value, "this rank", "scratch_chunks", 0, kMaxChunks);
    if (!id || !input || !output || !scratch || !setChunks(value, rank, *input, *output))
      return;
    gpu.scratchChunks = *scratch;
    algorithm_.scratchChunks = std::max(algorithm_.scratchChunks, *scratch);
    readChannels(gpu, rank);
    readRemoteBuffers(gpu, rank);
    if (const JsonValue *semaphores = value.member("semaphores"))
      for (const JsonValue &semaphore : semaphores->items)
        if (const auto first = numberOf(semaphore, "a semaphore", "init_value", 0, kMaxChunks))
          gpu.semaphores.push_back(*first);
  }

  // All ranks have as many chunks as the first, and input and output agree.
  bool setChunks(const JsonValue &value, int rank, int64_t input, int64_t output) {
    if (rank == 0) {
      // In place, one of both may be left out.
      if (algorithm_.inPlace && input == 0 && output != 0) {
        input = output;
        if (algorithm_.collective == Collective::AllGather)
          input = output / algorithm_.ranks;
        if (algorithm_.collective == Collective::ReduceScatter)
          input = output * algorithm_.ranks;
      }
      algorithm_.inputChunks = input;
      const auto expected = outputChunksOf(algorithm_.collective, input, algorithm_.ranks);
      if (algorithm_.inPlace && output == 0 && expected)
        output = *expected;
      algorithm_.outputChunks = output;
      if (input != 0 && input <= kMaxChunks && output <= kMaxChunks && expected == output)
        return true;
      fail(value.place, diag::import_value, "output_chunks", output,
           "what the collective makes of " + std::to_string(input) + " chunks a rank");
      return false;
    }
    const auto agrees = [&](int64_t given, int64_t first) {
      return given == first || (algorithm_.inPlace && given == 0);
    };
    if (agrees(input, algorithm_.inputChunks) && agrees(output, algorithm_.outputChunks))
      return true;
    fail(value.place, diag::import_value, "input_chunks", input,
         "the same on all ranks, as `output_chunks` is");
    return false;
  }

  std::optional<ChannelType> channelType(const JsonValue &object, llvm::StringRef name) {
    const JsonValue *type = member(object, "this", name, Kind::String, "memory or port");
    return type ? typeNamed(*type, name) : std::nullopt;
  }

  std::optional<ChannelType> typeNamed(const JsonValue &type, llvm::StringRef name) {
    if (type.text == "memory")
      return ChannelType::Memory;
    if (type.text == "port")
      return ChannelType::Port;
    if (type.text == "switch")
      fail(type.place, diag::import_not_understood, "a switch channel",
           "sums in a switch are no steps of ranks");
    else
      fail(type.place, diag::import_value, name, textOf(type), "memory or port");
    return std::nullopt;
  }

  void readChannels(Gpu &gpu, int rank) {
    const JsonValue *channels = array(*gpu.value, "this rank", "channels");
    if (!channels)
      return;
    std::map<std::pair<ChannelType, int>, int64_t> ordinals;
    for (const JsonValue &channel : channels->items) {
      const auto type = channelType(channel, "channel_type");
      const JsonValue *peers = type ? array(channel, "a channel", "connected_to") : nullptr;
      if (!peers)
        return;
      for (const JsonValue &peer : peers->items) {
        const auto to = number(peer, "connected_to", 0, algorithm_.ranks - 1);
        if (!to)
          return;
        if (*to == rank)
          return fail(peer.place, diag::import_value, "connected_to", *to, "another rank");
        gpu.channels[*type].push_back({.peer = int(*to), .ordinal = ordinals[{*type, int(*to)}]++});
      }
    }
  }

  void readRemoteBuffers(Gpu &gpu, int rank) {
    const JsonValue *buffers = array(*gpu.value, "this rank", "remote_buffers");
    if (!buffers)
      return;
    for (const JsonValue &entry : buffers->items) {
      const auto owner = numberOf(entry, "a remote buffer", "rank", 0, algorithm_.ranks - 1);
      const auto buffer = owner ? bufferType(entry) : std::nullopt;
      if (!buffer)
        return;
      if (*owner == rank)
        return fail(entry.place, diag::import_value, "rank", rank, "another rank");
      gpu.buffers.push_back({.rank = int(*owner), .buffer = *buffer});
    }
  }

  std::optional<Buffer> bufferType(const JsonValue &object) {
    const JsonValue *type = member(object, "a buffer", "type", Kind::String, "i, o or s");
    if (!type)
      return std::nullopt;
    const auto buffer = llvm::StringSwitch<std::optional<Buffer>>(type->text)
                            .Case("i", Buffer::Input)
                            .Case("o", Buffer::Output)
                            .Case("s", Buffer::Scratch)
                            .Default(std::nullopt);
    if (!buffer)
      fail(type->place, diag::import_value, "type", textOf(*type), "i, o or s");
    return buffer;
  }

  void readBlocks(int rank) {
    Gpu &gpu = gpus_[size_t(rank)];
    const JsonValue *blocks = array(*gpu.value, "this rank", "threadblocks");
    if (!blocks)
      return;
    std::set<int64_t> ids;
    for (const JsonValue &value : blocks->items) {
      const auto id = numberOf(value, "a thread block", "id", 0, kMaxBlocks - 1);
      const JsonValue *ops = id ? array(value, "a thread block", "ops") : nullptr;
      if (!ops)
        return;
      if (!ids.insert(*id).second)
        return fail(value.place, diag::import_value, "id", *id,
                    "the number of one thread block of a rank");
      algorithm_.blocks.push_back(
          {.place = value.place, .rank = rank, .id = *id, .peer = -1, .steps = {}});
      Scope scope{.gpu = gpu, .block = algorithm_.blocks.size() - 1, .channels = {}, .buffers = {}};
      readScope(value, scope);
      for (const JsonValue &op : ops->items)
        if (isFine_)
          readOp(op, scope, /*isNested=*/false);
      if (!isFine_)
        return;
    }
  }

  void readScope(const JsonValue &block, Scope &scope) {
    if (const JsonValue *channels = block.member("channels"))
      for (const JsonValue &entry : channels->items) {
        const auto type = channelType(entry, "channel_type");
        const JsonValue *ids = type ? array(entry, "a channel", "channel_ids") : nullptr;
        if (!ids)
          return;
        const std::vector<Channel> &all = scope.gpu.channels[*type];
        for (const JsonValue &id : ids->items) {
          const auto index = number(id, "channel_ids", 0, int64_t(all.size()) - 1);
          if (!index)
            return;
          scope.channels[*type].push_back(all[size_t(*index)]);
        }
      }
    if (const JsonValue *refs = block.member("remote_buffer_refs"))
      for (const JsonValue &entry : refs->items) {
        const auto type = channelType(entry, "access_channel_type");
        const JsonValue *ids = type ? array(entry, "a reference", "remote_buffer_ids") : nullptr;
        if (!ids)
          return;
        const std::vector<RemoteBuffer> &all = scope.gpu.buffers;
        for (const JsonValue &id : ids->items) {
          const auto index = number(id, "remote_buffer_ids", 0, int64_t(all.size()) - 1);
          if (!index)
            return;
          scope.buffers[*type].push_back(all[size_t(*index)]);
        }
      }
  }

  Step &addStep(const JsonValue &op, const Scope &scope) {
    ThreadBlock &block = algorithm_.blocks[scope.block];
    if (++steps_ == kMaxSteps)
      fail(op.place, diag::import_not_understood, "this plan",
           "it has more than " + std::to_string(kMaxSteps) + " steps");
    block.steps.push_back(
        {.place = op.place, .waits = {}, .sources = {}, .targets = {}, .notifies = {}});
    return block.steps.back();
  }

  [[nodiscard]] StepRef lastStep(const Scope &scope) const {
    return {.block = scope.block, .step = algorithm_.blocks[scope.block].steps.size() - 1};
  }

  void readOp(const JsonValue &op, Scope &scope, bool isNested) {
    const JsonValue *name = member(op, "an operation", "name", Kind::String, "a name");
    if (!name)
      return;
    if (name->text == "glres")
      return fail(op.place, diag::import_not_understood, "operation `glres`",
                  "sums in a switch are no steps of ranks");
    const auto row = opRow(name->text);
    if (!row)
      return fail(name->place, diag::import_not_understood, "operation `" + name->text + "`",
                  "`dtilec import --help` names those that are");
    if (const JsonValue *group = op.member("tbg_info"))
      return fail(group->place, diag::import_not_understood, "`tbg_info`",
                  "each thread block does its operations whole");
    auto type = ChannelType::Memory;
    if (const JsonValue *given = op.member("channel_type"); given && given->text != "none") {
      const auto known = typeNamed(*given, "channel_type");
      if (!known)
        return;
      type = *known;
    }
    switch (row->kind) {
    case OpKind::Nothing:
      return;
    case OpKind::Barrier:
      return readBarrier(op, scope);
    case OpKind::Copy:
      return readCopy(op, scope, *row, type);
    case OpKind::Sum:
      return readSum(op, scope, *row, type);
    case OpKind::Signal:
    case OpKind::Wait:
      return readSignal(op, scope, type, row->kind == OpKind::Signal);
    case OpKind::Acquire:
    case OpKind::Release:
      return readSemaphore(op, scope, row->kind == OpKind::Release);
    case OpKind::Pipeline:
      return readPipeline(op, scope, isNested);
    }
  }

  // Iterations take pieces of the chunks in turn. So do programs of a kernel, each piece by itself.
  void readPipeline(const JsonValue &op, Scope &scope, bool isNested) {
    if (isNested)
      return fail(op.place, diag::import_not_understood, "a pipeline in a pipeline",
                  "the inner one has no pieces of its own");
    if (const JsonValue *ops = array(op, "a pipeline", "ops"))
      for (const JsonValue &inner : ops->items)
        if (isFine_)
          readOp(inner, scope, /*isNested=*/true);
  }

  void readBarrier(const JsonValue &op, Scope &scope) {
    const auto id = numberOf(op, "a barrier", "barrier_id", 0, kMaxChunks);
    const auto blocks =
        id ? numberOf(op, "a barrier", "num_threadblocks", 1, kMaxBlocks) : std::nullopt;
    if (!blocks)
      return;
    // Who meets is known when all blocks are; `pairEvents` counts them.
    addStep(op, scope);
    const int rank = algorithm_.blocks[scope.block].rank;
    barriers_[{rank, *id}][scope.block].push_back(lastStep(scope));
    meets_[{rank, *id}].insert(*blocks);
  }
  void readSignal(const JsonValue &op, Scope &scope, ChannelType type, bool isSignal) {
    const JsonValue *ids = array(op, "this operation", "channel_ids");
    if (!ids)
      return;
    addStep(op, scope);
    signalChannels(*ids, scope, type, isSignal);
  }

  // What the last step signals, or waits for.
  void signalChannels(const JsonValue &ids, Scope &scope, ChannelType type, bool isSignal) {
    const int rank = algorithm_.blocks[scope.block].rank;
    const std::vector<Channel> &channels = scope.channels[type];
    for (const JsonValue &id : ids.items) {
      const auto index = number(id, "channel_ids", 0, int64_t(channels.size()) - 1);
      if (!index)
        return;
      const Channel &channel = channels[size_t(*index)];
      notePeer(scope, channel.peer);
      if (isSignal)
        signals_[{rank, channel.peer, type, channel.ordinal}].notifies.push_back(lastStep(scope));
      else
        signals_[{channel.peer, rank, type, channel.ordinal}].waits.push_back(lastStep(scope));
    }
  }

  void readSemaphore(const JsonValue &op, Scope &scope, bool isRelease) {
    const JsonValue *ids = array(op, "this operation", "semaphore_ids");
    if (!ids)
      return;
    addStep(op, scope);
    const int rank = algorithm_.blocks[scope.block].rank;
    for (const JsonValue &id : ids->items) {
      const auto index = number(id, "semaphore_ids", 0, int64_t(scope.gpu.semaphores.size()) - 1);
      if (!index)
        return;
      Pairing &pairing = semaphores_[{rank, *index}];
      (isRelease ? pairing.notifies : pairing.waits).push_back(lastStep(scope));
    }
  }

  void notePeer(const Scope &scope, int peer) {
    int &known = algorithm_.blocks[scope.block].peer;
    if (known < 0 && peer != algorithm_.blocks[scope.block].rank)
      known = peer;
  }

  std::optional<std::vector<Region>> regions(const JsonValue &op, const Scope &scope,
                                             llvm::StringRef name, ChannelType type) {
    const JsonValue *list = array(op, "this operation", name);
    if (!list)
      return std::nullopt;
    std::vector<Region> result;
    for (const JsonValue &entry : list->items) {
      const auto region = regionOf(entry, scope, type);
      if (!region)
        return std::nullopt;
      result.push_back(*region);
    }
    if (!result.empty())
      return result;
    fail(list->place, diag::import_value, name, "[]", "an array of buffers");
    return std::nullopt;
  }

  std::optional<Region> regionOf(const JsonValue &entry, const Scope &scope, ChannelType type) {
    Region region{.rank = algorithm_.blocks[scope.block].rank};
    if (const JsonValue *id = entry.member("buffer_id")) {
      const auto found = scope.buffers.find(type);
      const auto size = found == scope.buffers.end() ? 0 : int64_t(found->second.size());
      const auto index = number(*id, "buffer_id", 0, size - 1);
      if (!index)
        return std::nullopt;
      region.rank = found->second[size_t(*index)].rank;
      region.buffer = found->second[size_t(*index)].buffer;
      notePeer(scope, region.rank);
    } else if (entry.member("switch_channel_id")) {
      fail(entry.place, diag::import_not_understood, "a switch channel",
           "sums in a switch are no steps of ranks");
      return std::nullopt;
    } else {
      const auto buffer = bufferType(entry);
      if (!buffer)
        return std::nullopt;
      region.buffer = *buffer;
    }
    const auto index = numberOf(entry, "a buffer", "index", 0, kMaxChunks);
    const auto size = index ? numberOf(entry, "a buffer", "size", 1, kMaxChunks) : std::nullopt;
    if (!size)
      return std::nullopt;
    region.index = *index;
    region.count = *size;
    const int64_t chunks = region.buffer == Buffer::Input ? algorithm_.inputChunks
                           : region.buffer == Buffer::Output
                               ? algorithm_.outputChunks
                               : gpus_[size_t(region.rank)].scratchChunks;
    if (region.index + region.count > chunks) {
      const char *names[] = {"i", "o", "s"};
      fail(entry.place, diag::import_region, region.index, region.index + region.count,
           names[size_t(region.buffer)], region.rank, chunks);
      return std::nullopt;
    }
    return inOneBuffer(algorithm_, region);
  }

  void readCopy(const JsonValue &op, Scope &scope, const OpRow &row, ChannelType type) {
    auto sources = regions(op, scope, "src_buff", type);
    auto targets = sources ? regions(op, scope, "dst_buff", type) : std::nullopt;
    if (!targets)
      return;
    // One source may go to several targets.
    if (sources->size() == 1)
      sources->resize(targets->size(), sources->front());
    if (sources->size() != targets->size())
      return fail(op.place, diag::import_pairing,
                  "this has " + std::to_string(sources->size()) + " sources and " +
                      std::to_string(targets->size()) + " targets");
    for (size_t i = 0; i < targets->size(); ++i) {
      const Region &source = (*sources)[i];
      const Region &target = (*targets)[i];
      if (source.count != target.count)
        return fail(op.place, diag::import_pairing,
                    "this copies " + std::to_string(source.count) + " chunks to " +
                        std::to_string(target.count));
      Step &step = addStep(op, scope);
      step.sources.push_back(source);
      step.targets.push_back(target);
      if (row.readsPackets)
        addPackets(op, scope, source, /*isRead=*/true);
      if (row.writesPackets)
        addPackets(op, scope, target, /*isRead=*/false);
    }
    if (!row.signals)
      return;
    if (const JsonValue *ids = array(op, "this operation", "channel_ids")) {
      addStep(op, scope);
      signalChannels(*ids, scope, type, /*isSignal=*/true);
    }
  }

  // The first source and the first target are plain chunks. Of sums of packets, the others are
  // packets.
  void readSum(const JsonValue &op, Scope &scope, const OpRow &row, ChannelType type) {
    auto sources = regions(op, scope, "src_buff", type);
    auto targets = sources ? regions(op, scope, "dst_buff", type) : std::nullopt;
    if (!targets)
      return;
    if (const JsonValue *reduction = op.member("reduce_op"); reduction && reduction->text != "sum")
      return fail(reduction->place, diag::import_not_understood,
                  "reduction `" + reduction->text + "`", "chunks are added");
    for (const auto *list : {&*sources, &*targets})
      for (const Region &region : *list)
        if (region.count != sources->front().count)
          return fail(op.place, diag::import_pairing,
                      "this adds " + std::to_string(sources->front().count) + " chunks and " +
                          std::to_string(region.count));
    Step &step = addStep(op, scope);
    step.sources = *sources;
    step.targets = *targets;
    for (size_t i = 1; row.readsPackets && i < sources->size(); ++i)
      addPackets(op, scope, (*sources)[i], /*isRead=*/true);
    for (size_t i = 1; row.writesPackets && i < targets->size(); ++i)
      addPackets(op, scope, (*targets)[i], /*isRead=*/false);
  }

  // The last step reads, or writes, these chunks as packets.
  void addPackets(const JsonValue &op, const Scope &scope, const Region &region, bool isRead) {
    if (region.buffer != Buffer::Scratch)
      return fail(op.place, diag::import_pairing, "packets are in scratch, and this is not");
    Step &step = algorithm_.blocks[scope.block].steps.back();
    for (int64_t chunk = region.index; chunk < region.index + region.count; ++chunk) {
      const auto [entry, isNew] = packets_.try_emplace({region.rank, chunk}, 0);
      if (isNew) {
        entry->second = addEvent(algorithm_, EventKind::Packet, region.rank);
        algorithm_.events.back().index = chunk;
      }
      (isRead ? step.waits : step.notifies).push_back(entry->second);
    }
  }

  [[nodiscard]] Step &stepOf(const StepRef &ref) {
    return algorithm_.blocks[ref.block].steps[ref.step];
  }

  void pairEvents() {
    for (const auto &[key, pairing] : signals_)
      pair(pairing, std::get<1>(key), /*first=*/0,
           "channel from rank " + std::to_string(std::get<0>(key)) + " to rank " +
               std::to_string(std::get<1>(key)));
    for (const auto &[key, pairing] : semaphores_)
      pair(pairing, key.first, gpus_[size_t(key.first)].semaphores[size_t(key.second)],
           "semaphore " + std::to_string(key.second) + " of rank " + std::to_string(key.first));
    for (const auto &[key, blocks] : barriers_)
      meet(key.first, *meets_[key].begin(), blocks);
    checkPackets();
  }

  // The first `first` waits find a count that is there already.
  void pair(const Pairing &pairing, int rank, int64_t first, const std::string &name) {
    for (const auto *list : {&pairing.notifies, &pairing.waits})
      for (const StepRef &ref : *list)
        if (ref.block != list->front().block)
          return fail(stepOf(ref).place, diag::import_pairing,
                      "two thread blocks share one side of the " + name);
    for (size_t i = 0; i < pairing.waits.size(); ++i) {
      if (int64_t(i) < first)
        continue;
      const size_t notifier = i - size_t(first);
      if (notifier >= pairing.notifies.size())
        return fail(stepOf(pairing.waits[i]).place, diag::import_pairing,
                    "nothing is signalled for this to wait for on the " + name);
      const int event = addEvent(algorithm_, EventKind::Signal, rank);
      stepOf(pairing.notifies[notifier]).notifies.push_back(event);
      stepOf(pairing.waits[i]).waits.push_back(event);
    }
    const size_t used = pairing.waits.size() - std::min(pairing.waits.size(), size_t(first));
    if (pairing.notifies.size() > used && first == 0)
      fail(stepOf(pairing.notifies[used]).place, diag::import_pairing,
           "nothing waits for this signal on the " + name);
  }

  void meet(int rank, int64_t expected, const std::map<size_t, std::vector<StepRef>> &blocks) {
    const size_t times = blocks.begin()->second.size();
    const SourceRange place = stepOf(blocks.begin()->second.front()).place;
    if (int64_t(blocks.size()) != expected)
      return fail(place, diag::import_pairing,
                  std::to_string(blocks.size()) +
                      " thread blocks come to this barrier, which is for " +
                      std::to_string(expected));
    for (const auto &[block, steps] : blocks)
      if (steps.size() != times)
        return fail(stepOf(steps.front()).place, diag::import_pairing,
                    "thread blocks come to this barrier unequally often");
    // A block notifies when it comes, and waits in a step after that.
    for (size_t i = 0; i < times; ++i) {
      const int event = addEvent(algorithm_, EventKind::Met, rank);
      for (const auto &[block, steps] : blocks)
        barrierSteps_[{block, steps[i].step}] = event;
    }
  }
  void checkPackets() {
    std::vector<int> writes(algorithm_.events.size());
    for (const ThreadBlock &block : algorithm_.blocks)
      for (const Step &step : block.steps)
        for (const int event : step.notifies)
          if (algorithm_.events[size_t(event)].kind == EventKind::Packet &&
              ++writes[size_t(event)] == 2)
            return fail(step.place, diag::import_pairing,
                        "this writes packets where another operation does");
    for (const ThreadBlock &block : algorithm_.blocks)
      for (const Step &step : block.steps)
        for (const int event : step.waits)
          if (algorithm_.events[size_t(event)].kind == EventKind::Packet &&
              writes[size_t(event)] == 0)
            return fail(step.place, diag::import_pairing,
                        "nothing writes the packets that this reads");
    splitBarriers();
  }

  void splitBarriers() {
    for (size_t b = 0; b < algorithm_.blocks.size(); ++b) {
      std::vector<Step> steps;
      for (size_t s = 0; s < algorithm_.blocks[b].steps.size(); ++s) {
        Step &step = algorithm_.blocks[b].steps[s];
        const auto found = barrierSteps_.find({b, s});
        if (found != barrierSteps_.end()) {
          Step arrival = step;
          arrival.notifies.push_back(found->second);
          step.waits.push_back(found->second);
          steps.push_back(std::move(arrival));
        }
        steps.push_back(std::move(step));
      }
      algorithm_.blocks[b].steps = std::move(steps);
    }
  }
};

} // namespace

std::optional<Algorithm> readPlan(Reader &reader) { return PlanReader(reader).read(); }

} // namespace dtile::imported
