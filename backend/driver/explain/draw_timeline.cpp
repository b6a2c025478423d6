// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A row for each role and one for the way to other devices, over an axis of microseconds. The bound
// is when the launch would end if one of these were always busy and nothing else took time; the gap
// is what the prediction is above it.
#include "backend/driver/explain/draw_timeline.h"

#include "backend/driver/compile.h"
#include "backend/driver/explain/explain_choices.h"
#include "backend/driver/explain/svg.h"
#include "backend/driver/output/output_file.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace dtile::driver {

namespace {

constexpr unsigned kLeft = 150;
constexpr unsigned kPlot = 640;
constexpr unsigned kRight = 30;
constexpr unsigned kTop = 44;
constexpr unsigned kRow = 34;
constexpr unsigned kBar = 22;
/// Numbers on the axis, at most.
constexpr double kTicks = 8;

constexpr llvm::StringRef kStyle =
    "<style>text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.e{text-anchor:end}"
    ".m{text-anchor:middle;fill:#555}.o{fill:#ddd}.c{fill:#8fb0e8}.d{fill:#e8b870}.l{fill:#d07070}"
    ".g{stroke:#ddd}.b{stroke:#207020;stroke-width:2;stroke-dasharray:5 3}.x{fill:#207020}"
    ".y{stroke:#222;stroke-width:2}</style>\n";

std::string microseconds(double nanoseconds) {
  return llvm::formatv("{0:F1} us", nanoseconds / 1000).str();
}

/// 1, 2 or 5 times a power of ten, so that there are few enough of them in `whole`.
double tickOf(double whole) {
  const double least = std::max(whole, 1.0) / kTicks;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least)
      return factor * power;
  return 10 * power;
}

class Drawing {
public:
  Drawing(const PredictedLaunch &launch, llvm::raw_ostream &os)
      : launch_(launch), line_(launch.timeline), os_(os) {}

  void run() {
    const auto rows = unsigned(line_.rows.size()) + (line_.linkBytes > 0 ? 1 : 0);
    const unsigned bottom = kTop + rows * kRow;
    os_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kLeft + kPlot + kRight
        << "\" height=\"" << bottom + 64 << "\">\n"
        << kStyle;
    text(12, 20, launch_.title, "t");
    drawAxis(bottom);
    unsigned y = kTop;
    for (const backend::LaunchTimeline::Row &row : line_.rows) {
      drawRow(row, y);
      y += kRow;
    }
    if (line_.linkBytes > 0)
      drawLink(y);
    drawBound(bottom);
    os_ << "</svg>\n";
  }

private:
  [[nodiscard]] double at(double nanoseconds) const {
    return kLeft + kPlot * nanoseconds / std::max(line_.total, 1.0);
  }

  void text(double x, double y, llvm::StringRef words, llvm::StringRef how) {
    os_ << llvm::formatv("<text class=\"{0}\" x=\"{1:F1}\" y=\"{2:F1}\">", how, x, y)
        << svgText(words) << "</text>\n";
  }

  void line(double x, unsigned from, unsigned to, llvm::StringRef how) {
    os_ << llvm::formatv(
        "<line class=\"{0}\" x1=\"{1:F1}\" y1=\"{2}\" x2=\"{1:F1}\" y2=\"{3}\"/>\n", how, x, from,
        to);
  }

  void bar(double begin, double end, unsigned y, llvm::StringRef how, const std::string &says) {
    os_ << llvm::formatv("<rect class=\"{0}\" x=\"{1:F1}\" y=\"{2}\" width=\"{3:F1}\" "
                         "height=\"{4}\"><title>",
                         how, at(begin), y, std::max(at(end) - at(begin), 1.0), kBar)
        << svgText(says) << "</title></rect>\n";
  }

  void drawAxis(unsigned bottom) {
    const double tick = tickOf(line_.total);
    const auto ticks = static_cast<unsigned>(line_.total / tick);
    for (unsigned i = 0; i <= ticks; ++i) {
      const double t = i * tick;
      line(at(t), kTop - 6, bottom, "g");
      text(at(t), bottom + 14, llvm::formatv("{0}", llvm::formatv("{0:F1}", t / 1000)).str(), "m");
    }
    line(at(line_.total), kTop - 6, bottom, "y");
  }

  void drawRow(const backend::LaunchTimeline::Row &row, unsigned y) {
    const std::string name = row.name.empty() ? "(body)" : row.name;
    text(kLeft - 8, y + 15, name, "e");
    bar(0, line_.overhead, y, "o", "launch: " + microseconds(line_.overhead));
    if (row.bodies == 0)
      return text(at(line_.overhead) + 6, y + 15, "no bodies", "");
    std::string says = std::to_string(row.bodies) + (row.bodies == 1 ? " body" : " bodies");
    says += row.programs == 0   ? ", by programs of another role"
            : row.programs == 1 ? " on 1 program"
                                : " on " + std::to_string(row.programs) + " programs";
    bar(line_.overhead, line_.overhead + row.end, y, row.moves ? "d" : "c",
        name + ": " + says + ", each " + microseconds(row.work) + " of work and " +
            microseconds(row.latency) + " of latency" + (row.waits ? "; they wait" : ""));
    text(at(line_.overhead) + 6, y + 15, says + ", until " + microseconds(row.end + line_.overhead),
         "");
  }

  void drawLink(unsigned y) {
    const std::string says = llvm::formatv("{0:F2} MB", line_.linkBytes / 1e6).str();
    text(kLeft - 8, y + 15, "link", "e");
    bar(line_.overhead, line_.overhead + line_.linkTime, y, "l",
        says + " to and from other devices, busy for " + microseconds(line_.linkTime));
    text(at(line_.overhead) + 6, y + 15, says + ", busy for " + microseconds(line_.linkTime), "");
  }

  void drawBound(unsigned bottom) {
    const auto [bound, by] = boundOf(line_);
    const double gap = std::max(0.0, line_.total - bound);
    line(at(bound), kTop - 12, bottom + 4, "b");
    text(12, bottom + 34, "bound: " + microseconds(bound) + ", by the " + by, "x");
    text(12, bottom + 52,
         "predicted: " + microseconds(line_.total) + ", a gap of " + microseconds(gap) +
             llvm::formatv(" ({0:F0} %)", 100 * gap / std::max(bound, 1.0)).str(),
         "");
  }

  const PredictedLaunch &launch_;
  const backend::LaunchTimeline &line_;
  llvm::raw_ostream &os_;
};

} // namespace

void drawTimeline(Session &session, llvm::StringRef path, llvm::StringRef svg) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return;
  const auto kernels = selectKernels(session, *program);
  const std::vector<TargetArch> targets = selectTargets(session, session.options.target);
  if (kernels.empty() || targets.empty())
    return;
  const bool hasModel = targets.front().facts() != nullptr;
  if (kernels.size() > 1 || targets.size() > 1 || !hasModel || session.options.sizes.empty()) {
    session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                               "`--timeline` draws one launch of one kernel on one GPU: name them "
                               "by `--kernel`, `--target` and `--sizes`",
                               "dtilec explain");
    return;
  }
  const auto launch = predictLaunch(session, *program, *kernels.front(), targets.front());
  if (!launch)
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  Drawing(*launch, os).run();
  if (llvm::Error error = writeFile(svg, text))
    session.reportNotWritten(std::move(error));
}

} // namespace dtile::driver
