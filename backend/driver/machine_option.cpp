// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/machine_option.h"

#include "backend/driver/session.h"
#include "ir/machine/machine_file.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

std::shared_ptr<const TargetFacts> readMachine(Session &session) {
  const std::string &name = session.options.machineName;
  if (isMachineFile(name)) {
    const auto file = session.load(name);
    const auto read =
        file ? parseMachineFile(session.sources, *file, session.diagnostics) : std::nullopt;
    return read ? std::make_shared<const TargetFacts>(read->facts()) : nullptr;
  }
  if (const TargetFacts *row = dtile::findMachine(name))
    return std::make_shared<const TargetFacts>(*row);
  std::vector<std::string> names;
  for (const TargetFacts &machine : allMachines())
    names.push_back(machine.name.str());
  session.diagnostics.report(SourceLoc{}, diag::bad_cluster,
                             "knows no machine `" + name + "`; there is " +
                                 llvm::join(names, ", ") +
                                 ", and files of `dtilec calibrate`, which end in .json");
  return nullptr;
}

} // namespace

bool findMachineOfOptions(Options &options) {
  if (options.machineName.empty()) {
    // Bodies that wait have room, and passes for GPUs do nothing.
    if (options.command == Command::Check || options.command == Command::Ir)
      options.machine = std::make_shared<const TargetFacts>(allMachines().front());
    return true;
  }
  Session session(options);
  options.machine = readMachine(session);
  return options.machine || session.finish() == ExitCode::Ok;
}

} // namespace dtile::driver
