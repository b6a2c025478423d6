// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Headers of others that most sources of the runtime include; see cmake/DtilePrecompiled.cmake.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
