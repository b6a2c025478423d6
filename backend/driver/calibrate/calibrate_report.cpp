// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/calibrate/calibrate_report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::driver {

namespace {

std::string text(double number) { return llvm::formatv("{0:f1}", number).str(); }

} // namespace

CalibrateReport::CalibrateReport(MachineFile file, const TargetFacts &usual)
    : file_(std::move(file)), usual_(usual.timing) {
  for (const TimingField &field : timingFields())
    if (usual_.*field.number != file_.base->timing.*field.number)
      file_.numbers.push_back({&field, usual_.*field.number});
}

bool CalibrateReport::isDoubtful(const MeasuredNumber &number) const {
  const double usual = usual_.*number.field->number;
  // No row says what the host's numbers are.
  return file_.base->processors > 0 &&
         (number.value > kDoubtful * usual || kDoubtful * number.value < usual);
}

void CalibrateReport::add(MeasuredNumber number) {
  const std::lock_guard lock(mutex_);
  begun_ = nullptr;
  measured_.push_back(number.field);
  llvm::erase_if(file_.numbers, [&](const auto &one) { return one.field == number.field; });
  file_.numbers.push_back(number);
}

void CalibrateReport::miss(const Measurement &measurement, std::string why) {
  const std::lock_guard lock(mutex_);
  begun_ = nullptr;
  missing_.push_back({measurement.field, std::move(why)});
}

void CalibrateReport::begin(const Measurement &measurement) {
  const std::lock_guard lock(mutex_);
  begun_ = measurement.field;
}

void CalibrateReport::missRest(llvm::ArrayRef<Measurement> all, llvm::StringRef begun,
                               llvm::StringRef others) {
  const std::lock_guard lock(mutex_);
  for (const Measurement &one : all) {
    const auto isOfField = [&](const auto &known) { return known.field == one.field; };
    if (!llvm::is_contained(measured_, one.field) && llvm::none_of(missing_, isOfField))
      missing_.push_back({one.field, one.field == begun_ ? begun.str() : others.str()});
  }
}

TargetFacts CalibrateReport::known() {
  const std::lock_guard lock(mutex_);
  return file_.facts();
}

size_t CalibrateReport::measured() {
  const std::lock_guard lock(mutex_);
  return measured_.size();
}

std::string CalibrateReport::fileText() {
  const std::lock_guard lock(mutex_);
  return machineFileText(file_);
}

void CalibrateReport::print(llvm::raw_ostream &os) {
  const std::lock_guard lock(mutex_);
  os << llvm::formatv("{0}, based on {1}\n", file_.device, file_.base->name);
  os << llvm::formatv("  {0,-14} {1,10} {2,10} {3,7}  unit\n", "field", "table", "measured",
                      "spread");
  std::vector<std::string> others;
  for (const TimingField &field : timingFields()) {
    const double usual = usual_.*field.number;
    const auto isOfField = [&](const auto &known) { return known.field == &field; };
    if (llvm::is_contained(measured_, &field)) {
      const auto found = llvm::find_if(file_.numbers, isOfField);
      os << llvm::formatv("  {0,-14} {1,10} {2,10} {3,6}%  {4}{5}\n", field.name, text(usual),
                          text(found->value), llvm::formatv("{0:f0}", 100 * found->spread).str(),
                          field.unit, isDoubtful(*found) ? "  (far from the table's)" : "");
    } else if (const auto failed = llvm::find_if(missing_, isOfField); failed != missing_.end()) {
      os << llvm::formatv("  {0,-14} {1,10} {2,10} {3,7}  {4}: {5}\n", field.name, text(usual), "-",
                          "-", field.unit, failed->why);
    } else {
      others.push_back(field.name.str());
    }
  }
  os << "not measured, as the table has it: " << llvm::join(others, ", ") << '\n';
}

void CalibrateReport::warn(Diagnostics &diagnostics) {
  const std::lock_guard lock(mutex_);
  for (const MeasuredNumber &number : file_.numbers)
    if (isDoubtful(number))
      diagnostics.report(SourceLoc{}, diag::far_from_table, number.field->name, text(number.value),
                         number.field->unit, file_.base->name, text(usual_.*number.field->number));
}

} // namespace dtile::driver
