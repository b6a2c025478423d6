// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy's .npy files, versions 1 to 3. Debian has no C++ library for them that is kept up, and the
// format is a dict in a header, so this reads it by hand.
//
// Element types: bool, i1 to i8, u1 to u8, f2, f4, f8, little-endian. NumPy has no bf16 and no f8:
// they are written as ml_dtypes does, `<V2` and `|V1` (NumPy reads them back as raw bytes:
// `.view(np.uint16)`), and are read from those or from u2 and u1 where the caller says which type
// it expects.
#pragma once

#include "backend/ndarray/ndarray.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace dtile::ndarray {

/// Reads an array from a file's bytes. With `expected`, an array of another type is an error.
/// Fortran order is converted. Hostile headers are errors, and nothing larger than the file is ever
/// allocated.
llvm::Expected<NDArray> parseNpy(llvm::StringRef bytes, std::optional<DType> expected = {});
/// The same from a path; errors name it.
llvm::Expected<NDArray> readNpy(llvm::StringRef path, std::optional<DType> expected = {});

/// The bytes of a version 1 file (2 where the header needs it), C order.
[[nodiscard]] std::string formatNpy(const NDArray &array);
/// Writes a file at once or not at all.
llvm::Error writeNpy(llvm::StringRef path, const NDArray &array);

} // namespace dtile::ndarray
