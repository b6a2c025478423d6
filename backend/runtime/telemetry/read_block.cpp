// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout follows from three numbers of the header, so that no offset of a block is believed;
// numbers are held to their ranges, and text to what a terminal shows as text.
#include "backend/runtime/telemetry/read_block.h"

#include "backend/runtime/errors.h"

#include <algorithm>
#include <cstring>

namespace dtile::runtime::telemetry {

namespace {

constexpr int32_t kMostRanks = 1 << 16;

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, text.find('\0')));
  for (char &c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = '?';
  return shown;
}

std::vector<std::string> parts(const std::string &text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// A moment, or 0: differences of differences of moments fit.
int64_t timeOf(int64_t ns) { return ns >= 0 && ns < int64_t(1) << 60 ? ns : 0; }

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<ProcessView> read(std::string *why) {
    if (!readHeader(why))
      return std::nullopt;
    for (int32_t local = 0; local < header_.localCount; ++local)
      view_.local.push_back(rankOf(local));
    for (int32_t i = 0; i < layout_.waits; ++i)
      addWait(at<Wait>(layout_.waitsAt + uint64_t(i) * sizeof(Wait)));
    return std::move(view_);
  }

private:
  /// `offset` lies within the layout, whose end is within the bytes.
  template <typename T> T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  [[nodiscard]] std::string text(uint32_t offset) const {
    if (offset >= Layout::kStrings)
      return {};
    return printable(bytes_.substr(layout_.stringsAt + offset, Layout::kStrings - offset));
  }

  bool readHeader(std::string *why) {
    const auto refuse = [&](std::string text) {
      if (why)
        *why = std::move(text);
      return false;
    };
    if (bytes_.size() < sizeof(Header))
      return refuse("it ends within its header");
    header_ = at<Header>(0);
    if (header_.magic != kMagic)
      return refuse("it does not begin as telemetry does");
    if (header_.version != kVersion || header_.headerBytes != sizeof(Header))
      return refuse(format("it has version %u, and this program reads version %u", header_.version,
                           kVersion));
    const Header &h = header_;
    if (h.ranks < 1 || h.ranks > kMostRanks || h.localCount < 1 || h.localCount > h.ranks ||
        h.firstLocal < 0 || h.firstLocal > h.ranks - h.localCount)
      return refuse(format("it says that it is of %d ranks from %d of %d", h.localCount,
                           h.firstLocal, h.ranks));
    layout_ = layoutOf(h.ranks, h.localCount);
    if (layout_.bytes > bytes_.size())
      return refuse(format("%llu bytes are there of %llu",
                           static_cast<unsigned long long>(bytes_.size()),
                           static_cast<unsigned long long>(layout_.bytes)));
    view_.pid = h.pid;
    view_.job = h.job;
    view_.kind = h.kind == Kind::Gpus ? Kind::Gpus : Kind::Processors;
    view_.program = printable({h.program, sizeof h.program});
    view_.ranks = h.ranks;
    view_.firstLocal = h.firstLocal;
    view_.isDirect = h.isDirect != 0;
    view_.timeoutMs = h.timeoutMs;
    view_.createdNs = timeOf(h.createdNs);
    view_.waitsLeftOut = h.waitsLeftOut;
    if (h.failureTurn != 0 && h.failureTurn % 2 == 0) {
      view_.failureCode = h.failureCode;
      std::string words(h.failure, strnlen(h.failure, sizeof h.failure));
      std::replace(words.begin(), words.end(), '\n', ';');
      view_.failure = printable(words);
    }
    return true;
  }

  RankView rankOf(int32_t local) const {
    const auto from = at<Rank>(layout_.ranksAt + uint64_t(local) * sizeof(Rank));
    RankView view;
    view.rank = header_.firstLocal + local;
    view.state = from.state <= RankState::Failed ? from.state : RankState::Idle;
    view.kernel = text(from.kernel);
    view.begun = from.begun;
    view.ended = std::min(from.ended, from.begun);
    view.sinceNs = timeOf(from.sinceNs);
    view.movedNs = timeOf(from.movedNs);
    for (int32_t rank = 0; rank < header_.ranks; ++rank) {
      const auto peer =
          at<Peer>(layout_.peersAt +
                   (uint64_t(local) * uint64_t(header_.ranks) + uint64_t(rank)) * sizeof(Peer));
      view.peers.push_back({peer.notified, timeOf(peer.lastNs)});
    }
    for (int32_t slot = 0; slot < layout_.window; ++slot) {
      const uint64_t row =
          layout_.historyAt +
          (uint64_t(local) * uint64_t(layout_.window) + uint64_t(slot)) * layout_.launchBytes();
      const auto launch = at<Launch>(row);
      if (launch.turn == 0 || launch.turn % 2 != 0)
        continue;
      LaunchView &ended = view.launches.emplace_back();
      ended.number = launch.turn / 2 - 1;
      ended.beginNs = timeOf(launch.beginNs);
      ended.endNs = timeOf(launch.endNs);
      ended.ranNs = timeOf(launch.ranNs);
      for (int32_t rank = 0; rank < header_.ranks; ++rank)
        ended.ownNs.push_back(timeOf(at<int64_t>(row + sizeof(Launch) + uint64_t(rank) * 8)));
    }
    std::sort(view.launches.begin(), view.launches.end(),
              [](const LaunchView &a, const LaunchView &b) { return a.number < b.number; });
    return view;
  }

  void addWait(const Wait &wait) {
    if (wait.turn % 2 != 0 || wait.state == WaitState::None || wait.state > WaitState::Meeting ||
        wait.rank < header_.firstLocal || wait.rank >= header_.firstLocal + header_.localCount)
      return;
    WaitView &view = view_.waits.emplace_back();
    view.isBarrier = wait.state == WaitState::Barrier;
    view.isMeeting = wait.state == WaitState::Meeting;
    view.rank = wait.rank;
    view.kernel = text(wait.kernel);
    view.role = text(wait.role);
    view.place = text(wait.place);
    const std::vector<std::string> dims = parts(text(wait.dims));
    for (size_t d = 0; d < dims.size() && d < size_t(kDims); ++d)
      view.body += format("%s%s = %lld", d == 0 ? "" : ", ", dims[d].c_str(),
                          static_cast<long long>(wait.body[d]));
    if (wait.state == WaitState::Cell)
      view.cell = cellText(wait);
    if (wait.from == From::Rank && wait.fromRank >= 0 && wait.fromRank < header_.ranks)
      view.fromRank = wait.fromRank;
    view.fromRoles = parts(text(wait.fromRoles));
    view.fromPlace = text(wait.fromPlace);
    view.wanted = wait.wanted;
    view.seen = wait.seen;
    view.sinceNs = timeOf(wait.sinceNs);
  }

  std::string cellText(const Wait &wait) const {
    std::string cell = text(wait.signal);
    const int32_t dims = std::clamp(wait.cellDims, 0, kDims);
    for (int32_t d = 0; d < dims; ++d)
      cell += format("%s%lld", d == 0 ? "[" : ", ", static_cast<long long>(wait.cell[d]));
    return dims > 0 ? cell + "]" : cell;
  }

  std::string_view bytes_;
  Header header_{};
  Layout layout_;
  ProcessView view_;
};

} // namespace

std::optional<ProcessView> readBlock(std::string_view bytes, std::string *why) {
  return Reader(bytes).read(why);
}

} // namespace dtile::runtime::telemetry
