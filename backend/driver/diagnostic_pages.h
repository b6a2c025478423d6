// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pages of docs/diagnostics, embedded when dtilec is built (diagnostic_pages.cpp is generated).
#pragma once

#include <string_view>

namespace dtile::driver {

/// The text of docs/diagnostics/CODE.md; empty where there is none.
[[nodiscard]] std::string_view diagnosticPage(std::string_view code);

} // namespace dtile::driver
