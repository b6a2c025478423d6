// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints and draws measurements. Both axes of the picture are logarithmic.
#include "backend/driver/testing/bench_report.h"

#include "backend/driver/explain/svg.h"
#include "backend/driver/explain/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dtile::driver {

std::string sizesText(const BenchRow &row) {
  std::string text;
  for (const auto &[name, value] : row.sizes)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return text;
}

void printBench(const std::vector<BenchRow> &rows, llvm::raw_ostream &os) {
  std::vector<Row> table = {{"kernel", "ranks", "sizes", "median", "least", "most", "GB/s"}};
  for (const BenchRow &row : rows)
    table.push_back({row.kernel, std::to_string(row.ranks), sizesText(row),
                     llvm::formatv("{0:f3} ms", row.median * 1e3).str(),
                     llvm::formatv("{0:f3} ms", row.least * 1e3).str(),
                     llvm::formatv("{0:f3} ms", row.most * 1e3).str(),
                     row.median > 0
                         ? llvm::formatv("{0:f2}", double(row.bytes) / row.median / 1e9).str()
                         : ""});
  printTable(table, os);
}

namespace {

constexpr double kWidth = 760, kHeight = 440;
constexpr double kLeft = 80, kRight = 200, kTop = 24, kBottom = 56;
constexpr const char *kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                    "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};

/// The one symbol whose value differs among the rows of some line, or "".
std::string sizeThatChanges(const std::vector<BenchRow> &rows) {
  std::map<std::pair<std::string, std::string>, std::set<int64_t>> values;
  for (const BenchRow &row : rows)
    for (const auto &[name, value] : row.sizes)
      values[{row.kernel + "/" + std::to_string(row.ranks), name}].insert(value);
  std::set<std::string> changing;
  for (const auto &[key, seen] : values)
    if (seen.size() > 1)
      changing.insert(key.second);
  return changing.size() == 1 ? *changing.begin() : "";
}

int64_t sizeOf(const BenchRow &row, const std::string &symbol) {
  for (const auto &[name, value] : row.sizes)
    if (name == symbol)
      return value;
  return row.bytes;
}

/// A logarithmic axis.
struct Axis {
  double low, high, from, to;

  [[nodiscard]] double at(double value) const {
    return from + (std::log10(value) - low) / (high - low) * (to - from);
  }
  /// Powers of ten; where these are few, 2 and 5 times them as well.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> all;
    const bool areFew = high - low < 2.5;
    for (double power = std::floor(low); power <= std::ceil(high); ++power)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const double value = factor * std::pow(10, power); (factor == 1 || areFew) &&
                                                               std::log10(value) >= low - 1e-9 &&
                                                               std::log10(value) <= high + 1e-9)
          all.push_back(value);
    return all;
  }
};

Axis axisOf(double least, double most, double from, double to) {
  double low = std::log10(least), high = std::log10(most);
  // One value only has room around it, too.
  const double margin = std::max(0.05 * (high - low), 0.1);
  return {low - margin, high + margin, from, to};
}

std::string timeText(double seconds) {
  if (seconds < 1e-3)
    return llvm::formatv("{0} µs", std::round(seconds * 1e8) / 100).str();
  return llvm::formatv("{0} ms", std::round(seconds * 1e5) / 100).str();
}

std::string numberText(double value) {
  if (value >= 1e9)
    return llvm::formatv("{0:f0}G", value / 1e9).str();
  if (value >= 1e6)
    return llvm::formatv("{0:f0}M", value / 1e6).str();
  return llvm::formatv("{0:f0}", value).str();
}

void drawAxes(const Axis &x, const Axis &y, const std::string &symbol, llvm::raw_ostream &os) {
  for (const double tick : x.ticks())
    os << llvm::formatv("<line x1=\"{0:f1}\" x2=\"{0:f1}\" y1=\"{1:f1}\" y2=\"{2:f1}\" "
                        "class=\"grid\"/>\n<text x=\"{0:f1}\" y=\"{3:f1}\" "
                        "text-anchor=\"middle\">{4}</text>\n",
                        x.at(tick), y.from, y.to, y.from + 16, numberText(tick));
  for (const double tick : y.ticks())
    os << llvm::formatv("<line x1=\"{0:f1}\" x2=\"{1:f1}\" y1=\"{2:f1}\" y2=\"{2:f1}\" "
                        "class=\"grid\"/>\n<text x=\"{3:f1}\" y=\"{4:f1}\" "
                        "text-anchor=\"end\">{5}</text>\n",
                        x.from, x.to, y.at(tick), x.from - 6, y.at(tick) + 4, timeText(tick));
  os << llvm::formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" text-anchor=\"middle\">{2}</text>\n",
                      (x.from + x.to) / 2, y.from + 40,
                      symbol.empty() ? "bytes of the arguments of a rank" : svgText(symbol));
}

} // namespace

std::string plotBench(const std::vector<BenchRow> &rows) {
  const std::string symbol = sizeThatChanges(rows);
  std::map<std::string, std::vector<const BenchRow *>> lines;
  double leastSize = INFINITY, mostSize = 1, leastTime = INFINITY, mostTime = 0;
  for (const BenchRow &row : rows) {
    // Nothing has no logarithm.
    const double size = double(sizeOf(row, symbol));
    if (size < 1 || row.least <= 0)
      continue;
    lines[row.kernel + ", " + std::to_string(row.ranks) + (row.ranks == 1 ? " rank" : " ranks")]
        .push_back(&row);
    leastSize = std::min(leastSize, size);
    mostSize = std::max(mostSize, size);
    leastTime = std::min(leastTime, row.least);
    mostTime = std::max(mostTime, row.most);
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:f0} {1:f0}\" "
                      "width=\"{0:f0}\" height=\"{1:f0}\" font-family=\"sans-serif\" "
                      "font-size=\"12\">\n"
                      "<style>.grid {{ stroke: #ddd; } polyline {{ fill: none; stroke-width: 2; }"
                      "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                      kWidth, kHeight);
  if (lines.empty()) {
    os << "<text x=\"20\" y=\"40\">nothing was measured</text>\n</svg>\n";
    return text;
  }
  const Axis x = axisOf(leastSize, mostSize, kLeft, kWidth - kRight);
  const Axis y = axisOf(leastTime, mostTime, kHeight - kBottom, kTop);
  drawAxes(x, y, symbol, os);
  size_t number = 0;
  for (auto &[name, points] : lines) {
    const char *colour = kColours[number % std::size(kColours)];
    llvm::stable_sort(points, [&](const BenchRow *a, const BenchRow *b) {
      return sizeOf(*a, symbol) < sizeOf(*b, symbol);
    });
    os << "<polyline stroke=\"" << colour << "\" points=\"";
    for (const BenchRow *row : points)
      os << llvm::formatv("{0:f1},{1:f1} ", x.at(double(sizeOf(*row, symbol))), y.at(row->median));
    os << "\"/>\n";
    for (const BenchRow *row : points) {
      const double at = x.at(double(sizeOf(*row, symbol)));
      os << llvm::formatv("<line x1=\"{0:f1}\" x2=\"{0:f1}\" y1=\"{1:f1}\" y2=\"{2:f1}\" "
                          "stroke=\"{3}\"/>\n<circle cx=\"{0:f1}\" cy=\"{4:f1}\" r=\"3\" "
                          "fill=\"{3}\"><title>{5} {6}: {7}</title></circle>\n",
                          at, y.at(row->least), y.at(row->most), colour, y.at(row->median),
                          svgText(name), svgText(sizesText(*row)), timeText(row->median));
    }
    const double top = kTop + 16 * double(number);
    os << llvm::formatv("<rect x=\"{0:f1}\" y=\"{1:f1}\" width=\"10\" height=\"10\" "
                        "fill=\"{2}\"/>\n<text x=\"{3:f1}\" y=\"{4:f1}\">{5}</text>\n",
                        kWidth - kRight + 12, top, colour, kWidth - kRight + 28, top + 9,
                        svgText(name));
    ++number;
  }
  os << "</svg>\n";
  return text;
}

} // namespace dtile::driver
