// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler packs the runtime unpacks, and nothing that was changed harms it.
#include "backend/launch/pack_image.h"
#include "backend/runtime/device/packed_image.h"

#include <gtest/gtest.h>

#include <random>

namespace dtile::backend::launch {
namespace {

/// Nothing where the runtime says that it is damaged.
std::optional<std::string> unpacked(const std::string &packed, size_t bytes) {
  dtile_device_image image = {};
  image.data = packed.data();
  image.packed_bytes = int32_t(packed.size());
  image.bytes = int64_t(bytes);
  // Of exactly this size, so that sanitizers see what is beyond.
  const std::unique_ptr<char[]> out(new char[bytes]);
  if (!runtime::unpackImage(image, out.get()))
    return std::nullopt;
  return std::string(out.get(), bytes);
}

/// --gtest_random_seed gives other texts.
std::mt19937 seeded(unsigned test) {
  return std::mt19937(unsigned(testing::UnitTest::GetInstance()->random_seed()) + test);
}

/// Like code: mostly what was there before, at all distances, and something new.
std::string codeLike(std::mt19937 &random, size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    const size_t most = size_t(1) << random() % 12;
    const size_t length = random() % most + 1;
    if (text.empty() || random() % 3 == 0) {
      for (size_t i = 0; i < length; ++i)
        text += char(random() % 3 == 0 ? 'a' : random());
      continue;
    }
    const size_t from = random() % text.size();
    for (size_t i = 0; i < length; ++i)
      text += text[from + i];
  }
  text.resize(bytes);
  return text;
}

TEST(PackedImage, IsWhatWasPacked) {
  std::mt19937 random = seeded(7);
  for (size_t bytes = 0; bytes < 300; ++bytes)
    for (const std::string &text : {std::string(bytes, 'x'), codeLike(random, bytes)})
      EXPECT_EQ(unpacked(packImage(text), bytes), text) << bytes;
  for (int i = 0; i < 60; ++i) {
    const std::string text = codeLike(random, random() % 300000);
    EXPECT_EQ(unpacked(packImage(text), text.size()), text) << text.size();
  }
}

TEST(PackedImage, OfTextThatRepeatsIsSmall) {
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += "add.s32 %r" + std::to_string(i) + ", %r1, 4;\n";
  EXPECT_LT(packImage(text).size() * 3, text.size());
}

TEST(PackedImage, DamagedIsRefusedOrWrongAndNeverWritesBeyond) {
  std::mt19937 random = seeded(8);
  const std::string text = codeLike(random, 2000), packed = packImage(text);
  for (size_t size = 0; size < packed.size(); ++size)
    EXPECT_EQ(unpacked(packed.substr(0, size), text.size()), std::nullopt);
  EXPECT_EQ(unpacked(packed, text.size() - 1), std::nullopt);
  EXPECT_EQ(unpacked(packed, text.size() + 1), std::nullopt);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = packed;
    for (unsigned k = 0; k <= random() % 3; ++k)
      changed[random() % changed.size()] = char(random());
    (void)unpacked(changed, text.size());
  }
}

} // namespace
} // namespace dtile::backend::launch
