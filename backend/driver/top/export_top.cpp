// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jobs for programs: JSON, and what Prometheus reads.
#include "backend/driver/top/top_view.h"

#include "backend/runtime/telemetry/wait_graph.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <string>

namespace dtile::driver {

using namespace runtime::telemetry;

namespace {

std::string jobName(const JobView &job) {
  std::string name;
  llvm::raw_string_ostream(name) << llvm::format_hex_no_prefix(job.job, 1);
  return name;
}

double secondsOf(int64_t ns) { return double(std::max<int64_t>(ns, 0)) / 1e9; }

void writeRank(const JobView &job, const ProcessView &process, const RankView &rank,
               llvm::json::OStream &json) {
  json.object([&] {
    json.attribute("rank", rank.rank);
    json.attribute("pid", process.pid);
    json.attribute("state", stateName(rank.state));
    json.attribute("is_stopped", process.isStopped);
    json.attribute("state_seconds", secondsOf(job.nowNs - rank.sinceNs));
    json.attribute("moved_seconds_ago", secondsOf(job.nowNs - rank.movedNs));
    json.attribute("kernel", llvm::json::fixUTF8(rank.kernel));
    json.attribute("begun", rank.begun);
    json.attribute("ended", rank.ended);
    json.attributeArray("peers", [&] {
      for (const PeerView &peer : rank.peers)
        json.object([&] {
          json.attribute("notified", peer.notified);
          if (peer.notified != 0)
            json.attribute("seconds_ago", secondsOf(job.nowNs - peer.lastNs));
        });
    });
  });
}

void writeWait(const JobView &job, const WaitView &wait, llvm::json::OStream &json) {
  json.object([&] {
    json.attribute("rank", wait.rank);
    json.attribute("kernel", llvm::json::fixUTF8(wait.kernel));
    json.attribute("role", llvm::json::fixUTF8(wait.role));
    json.attribute("place", llvm::json::fixUTF8(wait.place));
    json.attribute("body", llvm::json::fixUTF8(wait.body));
    json.attribute("is_barrier", wait.isBarrier || wait.isMeeting);
    json.attribute("cell", llvm::json::fixUTF8(wait.cell));
    json.attribute("wanted", wait.wanted);
    json.attribute("seen", wait.seen);
    json.attribute("seconds", secondsOf(job.nowNs - wait.sinceNs));
    if (wait.fromRank)
      json.attribute("from_rank", *wait.fromRank);
    json.attributeArray("from_roles", [&] {
      for (const std::string &role : wait.fromRoles)
        json.value(llvm::json::fixUTF8(role));
    });
    json.attribute("notified_at", llvm::json::fixUTF8(wait.fromPlace));
  });
}

void writeSkew(const SkewReport &report, llvm::json::OStream &json) {
  json.attributeObject("skew", [&] {
    json.attribute("launches", int64_t(report.launches));
    json.attribute("why_not", report.whyNot);
    if (const auto &starved = report.starved)
      json.attributeObject("starved", [&] {
        json.attribute("rank", starved->rank);
        json.attribute("pid", starved->pid);
        json.attribute("share", starved->share);
        json.attribute("others_share", starved->othersShare);
      });
    json.attributeArray("ranks", [&] {
      for (const RankSkew &rank : report.ranks)
        json.object([&] {
          json.attribute("rank", rank.rank);
          json.attribute("over_us", double(rank.lateNs) / 1000);
          json.attribute("slowest", int64_t(rank.last));
        });
    });
    json.attributeArray("stragglers", [&] {
      for (const Straggler &slow : report.found)
        json.object([&] {
          json.attribute("rank", slow.rank);
          if (slow.peer)
            json.attribute("peer", *slow.peer);
          json.attribute("over_us", double(slow.lateNs) / 1000);
          json.attribute("deviations", slow.deviations);
          json.attribute("others_us", double(slow.othersNs) / 1000);
          json.attribute("apart_in", int64_t(slow.launches));
        });
    });
  });
}

/// Samples of one metric, which the format wants side by side, below its head.
class Metrics {
public:
  using Labels = std::vector<std::pair<llvm::StringRef, std::string>>;

  void add(llvm::StringRef name, llvm::StringRef type, llvm::StringRef help, const Labels &labels,
           double value) {
    Metric &metric = metrics_[name.str()];
    metric.type = type.str();
    metric.help = help.str();
    llvm::raw_string_ostream out(metric.samples);
    out << name;
    for (const auto &[i, label] : llvm::enumerate(labels))
      out << (i == 0 ? '{' : ',') << label.first << "=\"" << escaped(label.second) << '"';
    out << (labels.empty() ? " " : "} ") << llvm::format("%.17g", value) << '\n';
  }

  void print(llvm::raw_ostream &out) const {
    for (const auto &[name, metric] : metrics_)
      out << "# HELP " << name << ' ' << metric.help << "\n# TYPE " << name << ' ' << metric.type
          << '\n'
          << metric.samples;
  }

private:
  struct Metric {
    std::string type, help, samples;
  };

  static std::string escaped(llvm::StringRef text) {
    std::string out;
    for (const char c : llvm::json::fixUTF8(text)) {
      if (c == '\\' || c == '"')
        out += '\\';
      out += c;
    }
    return out;
  }

  std::map<std::string, Metric> metrics_;
};

void addRank(Metrics &metrics, const JobView &job, int32_t number) {
  const Metrics::Labels labels = {{"job", jobName(job)}, {"rank", std::to_string(number)}};
  const auto gauge = [&](llvm::StringRef name, llvm::StringRef help, double value) {
    metrics.add(name, "gauge", help, labels, value);
  };
  const auto counter = [&](llvm::StringRef name, llvm::StringRef help, double value) {
    metrics.add(name, "counter", help, labels, value);
  };
  const RankView *rank = job.rank(number);
  gauge("dtile_rank_up", "whether a process of this machine has the rank", rank ? 1 : 0);
  if (!rank)
    return;
  counter("dtile_rank_launches_begun_total", "launches that have begun", double(rank->begun));
  counter("dtile_rank_launches_ended_total", "launches that have ended", double(rank->ended));
  gauge("dtile_rank_failed", "whether the last launch has failed",
        rank->state == RankState::Failed ? 1 : 0);
  gauge("dtile_rank_stopped", "whether its process has been stopped",
        job.processOf(number)->isStopped ? 1 : 0);
  gauge("dtile_rank_moved_seconds", "since a body last began, was woken or notified",
        secondsOf(job.nowNs - rank->movedNs));
  for (const auto &[peer, sent] : llvm::enumerate(rank->peers)) {
    if (sent.notified == 0)
      continue;
    Metrics::Labels pair = labels;
    pair.emplace_back("peer", std::to_string(peer));
    metrics.add("dtile_notifies_total", "counter", "notifies that the rank has sent to the peer",
                pair, double(sent.notified));
  }
}

void addProcess(Metrics &metrics, const JobView &job, const ProcessView &process) {
  const Metrics::Labels labels = {{"job", jobName(job)},
                                  {"rank", std::to_string(process.firstLocal)},
                                  {"pid", std::to_string(process.pid)}};
  metrics.add("dtile_process_ran_seconds_total", "counter",
              "how long the threads of the rank's process have run", labels,
              secondsOf(process.ranNs));
  metrics.add("dtile_process_starved_seconds_total", "counter",
              "how long its threads were ready and had no processor", labels,
              secondsOf(process.starvedNs));
}

void addWaits(Metrics &metrics, const JobView &job) {
  std::map<std::vector<std::string>, std::pair<size_t, int64_t>> groups;
  for (const ProcessView &process : job.processes)
    for (const WaitView &wait : process.waits) {
      auto &[bodies, longest] =
          groups[{std::to_string(wait.rank), wait.kernel, wait.role, wait.place,
                  wait.fromRank ? std::to_string(*wait.fromRank) : ""}];
      ++bodies;
      longest = std::max(longest, job.nowNs - wait.sinceNs);
    }
  for (const auto &[key, group] : groups) {
    const Metrics::Labels labels = {{"job", jobName(job)}, {"rank", key[0]},  {"kernel", key[1]},
                                    {"role", key[2]},      {"place", key[3]}, {"peer", key[4]}};
    metrics.add("dtile_waiting_bodies", "gauge", "bodies that wait for the peer at the place",
                labels, double(group.first));
    metrics.add("dtile_wait_seconds", "gauge", "how long the longest of them has waited", labels,
                secondsOf(group.second));
  }
}

void addSkew(Metrics &metrics, const JobView &job) {
  const SkewReport report = findStragglers(job);
  for (const RankSkew &rank : report.ranks)
    metrics.add("dtile_rank_slow_seconds", "gauge",
                "how much more time of its own than the median of the ranks it takes in a launch",
                {{"job", jobName(job)}, {"rank", std::to_string(rank.rank)}},
                double(rank.lateNs) / 1e9);
  for (const Straggler &slow : report.found)
    metrics.add("dtile_straggler_seconds", "gauge",
                "the same of a rank, or of what it sends to a peer, that is apart from the others",
                {{"job", jobName(job)},
                 {"rank", std::to_string(slow.rank)},
                 {"peer", slow.peer ? std::to_string(*slow.peer) : ""}},
                double(slow.lateNs) / 1e9);
}

} // namespace

void printTopJson(llvm::ArrayRef<JobView> jobs, const Looks &earlier, llvm::raw_ostream &out) {
  llvm::json::OStream json(out, 2);
  json.array([&] {
    for (const JobView &job : jobs)
      json.object([&] {
        json.attribute("job", jobName(job));
        json.attribute("program", llvm::json::fixUTF8(job.processes.front().program));
        json.attribute("kind", job.processes.front().kind == Kind::Gpus ? "gpus" : "processors");
        json.attribute("ranks", job.ranks());
        json.attributeArray("here", [&] {
          for (const ProcessView &process : job.processes)
            for (const RankView &rank : process.local)
              writeRank(job, process, rank, json);
        });
        json.attributeArray("waits", [&] {
          for (const ProcessView &process : job.processes)
            for (const WaitView &wait : process.waits)
              writeWait(job, wait, json);
        });
        json.attributeArray("failures", [&] {
          for (const ProcessView &process : job.processes)
            if (process.failureCode != 0)
              json.value(llvm::json::fixUTF8(process.failure));
        });
        writeSkew(findStragglers(job, earlier), json);
      });
  });
  json.flush();
  out << '\n';
}

void printTopPrometheus(llvm::ArrayRef<JobView> jobs, llvm::raw_ostream &out) {
  Metrics metrics;
  for (const JobView &job : jobs) {
    const ProcessView &first = job.processes.front();
    metrics.add("dtile_job_ranks", "gauge", "ranks of the job",
                {{"job", jobName(job)}, {"program", first.program}}, double(first.ranks));
    for (int32_t rank = 0; rank < job.ranks(); ++rank)
      addRank(metrics, job, rank);
    for (const ProcessView &process : job.processes)
      addProcess(metrics, job, process);
    addWaits(metrics, job);
    addSkew(metrics, job);
  }
  metrics.print(out);
}

} // namespace dtile::driver
