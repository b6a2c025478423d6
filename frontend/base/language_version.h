// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The version of the language that this compiler reads, which is dtile's own without its PATCH:
// while MAJOR is 0, a MINOR may change the language. tests/check_codes.py compares it with
// CMakeLists.txt.
#pragma once

namespace dtile {

inline constexpr unsigned kLanguageMajor = 0;
inline constexpr unsigned kLanguageMinor = 1;

} // namespace dtile
