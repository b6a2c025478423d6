// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the graph of a launch from its events.
#include "backend/driver/simulate/trace_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace dtile::driver {

using simulate::Event;

namespace {

/// Bytes of a notify, and of the request of a get.
constexpr uint64_t kWordBytes = 8;
/// Tags of answers, beside those of the same number that requests have.
constexpr uint32_t kAnswer = uint32_t(1) << 31;

using CellOfSignal = std::pair<int32_t, int64_t>;

/// A message of one of the ranks that were simulated.
struct Message {
  int64_t from = 0, to = 0;
  int32_t space = 0;
  int64_t body = 0;
  uint64_t bytes = kWordBytes;
  uint32_t tag = 0;
  bool isRead = false;
  double start = 0;
  /// Cells that it adds to, with their signal.
  std::vector<CellOfSignal> cells;
};

/// A part of a body: what it does from one wait on until another one follows a message.
struct Part {
  /// When it had all that it waits for.
  double start = 0;
  double worked = 0;
  /// What the body has waited for so far.
  std::vector<CellOfSignal> waits;
  /// Positions among the messages.
  std::vector<size_t> sends;
};
using Body = std::vector<Part>;

/// Rank, space, number.
using BodyKey = std::tuple<int64_t, int32_t, int64_t>;

class GraphBuilder {
public:
  GraphBuilder(const simulate::Cluster &cluster, int64_t simulated,
               llvm::ArrayRef<simulate::SpaceTimes> spaces)
      : ranks_(cluster.ranks), period_(simulated), spaces_(spaces) {
    for (const simulate::SpaceTimes &space : spaces)
      programs_ += space.programs;
  }

  void collect(llvm::ArrayRef<Event> events);
  std::vector<TraceNode> nodesOf(int64_t rank);

private:
  void add(const Event &event);
  Message &send(const Event &event, Part &part, uint64_t bytes);

  int64_t ranks_, period_;
  llvm::ArrayRef<simulate::SpaceTimes> spaces_;
  int64_t programs_ = 0;
  std::map<BodyKey, Body> bodies_;
  std::vector<Message> messages_;
  std::vector<uint32_t> tags_;
};

void GraphBuilder::collect(llvm::ArrayRef<Event> events) {
  tags_.resize(size_t(period_));
  for (const Event &event : events)
    add(event);
}

Message &GraphBuilder::send(const Event &event, Part &part, uint64_t bytes) {
  part.sends.push_back(messages_.size());
  Message &made = messages_.emplace_back();
  made.from = event.rank;
  made.to = event.peer;
  made.space = event.space;
  made.body = event.body;
  made.bytes = bytes;
  made.tag = tags_[size_t(event.rank)]++;
  made.start = event.start;
  return made;
}

void GraphBuilder::add(const Event &event) {
  Body &body = bodies_[{event.rank, event.space, event.body}];
  if (body.empty())
    body.push_back({.start = event.start});
  if (event.kind == Event::Kind::Wait && !body.back().sends.empty())
    body.push_back({.start = event.end, .waits = body.back().waits});
  Part &part = body.back();
  switch (event.kind) {
  case Event::Kind::Work:
    part.worked += event.end - event.start;
    return;
  case Event::Kind::Wait:
    part.start = std::max(part.start, event.end);
    for (const int64_t cell : event.cells)
      part.waits.emplace_back(event.signal, cell);
    return;
  case Event::Kind::Put:
    send(event, part, std::max<uint64_t>(uint64_t(event.bytes), 1));
    return;
  case Event::Kind::Get:
    send(event, part, std::max<uint64_t>(uint64_t(event.bytes), 1)).isRead = true;
    return;
  case Event::Kind::Notify: {
    // After a put of this body to the same rank it is part of it.
    Message *behind = nullptr;
    for (const size_t sent : llvm::reverse(part.sends))
      if (messages_[sent].to == event.peer && !messages_[sent].isRead) {
        behind = &messages_[sent];
        break;
      }
    if (!behind)
      behind = &send(event, part, kWordBytes);
    for (const int64_t cell : event.cells)
      behind->cells.emplace_back(event.signal, cell);
    return;
  }
  }
}

std::vector<TraceNode> GraphBuilder::nodesOf(int64_t rank) {
  std::vector<TraceNode> nodes;
  const auto add = [&](TraceNode node) {
    nodes.push_back(std::move(node));
    return uint64_t(nodes.size() - 1);
  };
  const auto moved = [&](int64_t other, int64_t by) {
    return ((other + by) % ranks_ + ranks_) % ranks_;
  };
  // What comes in: messages of ranks that are like the senders. A message to itself is one, too.
  std::map<CellOfSignal, std::vector<uint64_t>> tellers;
  std::map<CellOfSignal, std::vector<size_t>> toItself;
  for (const auto [i, message] : llvm::enumerate(messages_)) {
    if ((rank - message.to) % period_ != 0)
      continue;
    const int64_t sender = moved(message.from, rank - message.to);
    if (sender == rank) {
      for (const auto &cell : message.cells)
        toItself[cell].push_back(i);
      continue;
    }
    const uint64_t in = add({.kind = TraceNode::Kind::Receive,
                             .name = "receive",
                             .bytes = message.isRead ? kWordBytes : message.bytes,
                             .peer = sender,
                             .tag = message.tag});
    if (message.isRead)
      add({.kind = TraceNode::Kind::Send,
           .name = "answer",
           .after = {in},
           .bytes = message.bytes,
           .peer = sender,
           .tag = message.tag | kAnswer});
    for (const auto &cell : message.cells)
      tellers[cell].push_back(in);
  }
  // Bodies in the order in which they had what they wait for.
  struct Group {
    std::vector<const Part *> parts;
    double start = 0;
    double worked = 0;
    std::set<uint64_t> after;
    std::set<size_t> own;
  };
  std::map<std::tuple<int32_t, std::set<uint64_t>, std::set<size_t>, std::set<int64_t>>, Group>
      groups;
  for (const auto &[key, body] : bodies_) {
    if (std::get<0>(key) != rank)
      continue;
    for (const Part &part : body) {
      std::set<uint64_t> after;
      std::set<size_t> own;
      for (const CellOfSignal &cell : part.waits) {
        if (const auto it = tellers.find(cell); it != tellers.end())
          after.insert(it->second.begin(), it->second.end());
        if (const auto it = toItself.find(cell); it != toItself.end())
          own.insert(it->second.begin(), it->second.end());
      }
      std::set<int64_t> peers;
      for (const size_t sent : part.sends)
        peers.insert(messages_[sent].to);
      Group &group = groups[{std::get<1>(key), after, own, peers}];
      group.start = group.parts.empty() ? part.start : std::min(group.start, part.start);
      group.parts.push_back(&part);
      group.worked += part.worked;
      group.after = std::move(after);
      group.own = std::move(own);
    }
  }
  std::vector<std::pair<int32_t, Group *>> inOrder;
  for (auto &[key, group] : groups)
    inOrder.emplace_back(std::get<0>(key), &group);
  llvm::stable_sort(inOrder,
                    [](const auto &a, const auto &b) { return a.second->start < b.second->start; });
  // Which computation a message to itself comes after.
  std::map<size_t, uint64_t> doneBy;
  std::optional<uint64_t> before;
  for (const auto &[space, group] : inOrder) {
    std::vector<uint64_t> after(group->after.begin(), group->after.end());
    for (const size_t message : group->own)
      if (const auto it = doneBy.find(message); it != doneBy.end())
        after.push_back(it->second);
    // What is read at others is there before anything is computed of it.
    std::vector<uint64_t> read;
    for (const Part *part : group->parts)
      for (const size_t sent : part->sends)
        if (const Message &message = messages_[sent]; message.isRead && message.to != rank) {
          add({.kind = TraceNode::Kind::Send,
               .name = "request",
               .after = after,
               .bytes = kWordBytes,
               .peer = message.to,
               .tag = message.tag});
          read.push_back(add({.kind = TraceNode::Kind::Receive,
                              .name = "read",
                              .bytes = message.bytes,
                              .peer = message.to,
                              .tag = message.tag | kAnswer}));
        }
    after.insert(after.end(), read.begin(), read.end());
    if (group->worked > 0) {
      if (before)
        after.push_back(*before);
      llvm::sort(after);
      after.erase(std::unique(after.begin(), after.end()), after.end());
      const std::string &name = spaces_[size_t(space)].name;
      before = add({.kind = TraceNode::Kind::Compute,
                    .name = name.empty() ? "body" : name,
                    .after = after,
                    .nanoseconds = group->worked / double(std::max<int64_t>(programs_, 1))});
      after = {*before};
    }
    for (const Part *part : group->parts)
      for (const size_t sent : part->sends) {
        const Message &message = messages_[sent];
        if (message.to == rank && !after.empty())
          doneBy[sent] = after.back();
        if (message.to != rank && !message.isRead)
          add({.kind = TraceNode::Kind::Send,
               .name = "put",
               .after = after,
               .bytes = message.bytes,
               .peer = message.to,
               .tag = message.tag});
      }
  }
  return nodes;
}

} // namespace

TraceGraph TraceRecorder::graph(const simulate::Cluster &cluster, int64_t simulated,
                                llvm::ArrayRef<simulate::SpaceTimes> spaces) const {
  GraphBuilder builder(cluster, simulated, spaces);
  builder.collect(events_);
  TraceGraph made;
  for (int64_t rank = 0; rank < simulated; ++rank)
    made.push_back(builder.nodesOf(rank));
  return made;
}

} // namespace dtile::driver
