// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What unit tests include beside the headers of the compiler; see cmake/DtilePrecompiled.cmake.
#pragma once

#include "cmake/precompiled/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
