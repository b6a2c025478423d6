// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy files: those that NumPy wrote (Inputs/npy), round trips, and input that is damaged or
// hostile.
#include "backend/ndarray/npy.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <cmath>

namespace dtile::ndarray {
namespace {

std::string inputPath(const std::string &name) {
  return std::string(DTILE_TEST_INPUTS) + "/npy/" + name;
}

NDArray read(const std::string &name, std::optional<DType> expected = {}) {
  llvm::Expected<NDArray> array = readNpy(inputPath(name), expected);
  if (array)
    return std::move(*array);
  ADD_FAILURE() << llvm::toString(array.takeError());
  return NDArray();
}

/// What is said about bytes that are no array; "" when they are one.
std::string complaint(llvm::StringRef bytes, std::optional<DType> expected = {}) {
  llvm::Expected<NDArray> array = parseNpy(bytes, expected);
  return array ? "" : llvm::toString(array.takeError());
}
std::string fileComplaint(const std::string &path, std::optional<DType> expected = {}) {
  llvm::Expected<NDArray> array = readNpy(path, expected);
  return array ? "" : llvm::toString(array.takeError());
}

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

/// A version 1 file of this header and payload, not padded.
std::string file(const std::string &dict, const std::string &payload = "", int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(dict.size() >> 8 * i);
  return bytes + dict + payload;
}
std::string dict(const std::string &descr, const std::string &shape,
                 const std::string &order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

TEST(Npy, ReadsWhatNumPyWrote) {
  const std::pair<const char *, DType> files[] = {
      {"i1", DType::I8},  {"i2", DType::I16}, {"i4", DType::I32}, {"i8", DType::I64},
      {"u1", DType::U8},  {"u2", DType::U16}, {"u4", DType::U32}, {"u8", DType::U64},
      {"f2", DType::F16}, {"f4", DType::F32}, {"f8", DType::F64}, {"bool", DType::Bool},
  };
  for (const auto &[name, dtype] : files) {
    const NDArray array = read(std::string("counting_") + name + ".npy", dtype);
    EXPECT_EQ(array.dtype(), dtype);
    ASSERT_EQ(array.shape(), (Shape{3, 4})) << name;
    const bool isSigned = name[0] == 'i' || name[0] == 'f';
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(array.getDouble(i), dtype == DType::Bool ? i != 0 : i - (isSigned ? 4 : 0)) << name;
  }
}

TEST(Npy, ReadsEveryVersionAndShape) {
  for (const char *name : {"version1.npy", "version2.npy", "version3.npy"}) {
    const NDArray array = read(name, DType::F32);
    EXPECT_EQ(array.shape(), (Shape{2, 3}));
    EXPECT_EQ(array.getDouble(5), 5);
  }
  EXPECT_EQ(read("scalar.npy").shape(), Shape{});
  EXPECT_EQ(read("scalar.npy").getDouble(0), 2.5);
  EXPECT_EQ(read("empty.npy").shape(), (Shape{0, 7}));
  EXPECT_EQ(read("vector.npy").shape(), (Shape{5}));
}

TEST(Npy, ConvertsFortranOrder) {
  const NDArray array = read("fortran.npy");
  ASSERT_EQ(array.shape(), (Shape{2, 3, 4}));
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(array.getDouble(i), i);
}

TEST(Npy, ReadsBf16AndF8WhereTheyAreExpected) {
  for (const char *name : {"raw16.npy", "bits16.npy"}) {
    const NDArray array = read(name, DType::BF16);
    EXPECT_EQ(array.getDouble(0), 1);
    EXPECT_EQ(array.getDouble(1), -2);
  }
  EXPECT_EQ(read("bits16.npy").dtype(), DType::U16);
  EXPECT_EQ(read("raw8.npy", DType::F8E4M3).toDoubles(), (std::vector<double>{1, -2}));
  EXPECT_EQ(read("raw8.npy", DType::F8E5M2).toDoubles(), (std::vector<double>{0.5, -2}));
  expectContains(fileComplaint(inputPath("raw16.npy")), "which say no type");
  expectContains(fileComplaint(inputPath("counting_f4.npy"), DType::BF16),
                 "has elements <f4 where bf16 is expected: save its bits as uint16");
}

TEST(Npy, RefusesWhatNoTensorCanHold) {
  expectContains(fileComplaint(inputPath("big_endian.npy")), "is big-endian (>f4)");
  expectContains(fileComplaint(inputPath("complex.npy")), "has elements '<c8', which no tensor");
  expectContains(fileComplaint(inputPath("structured.npy")), "several fields");
  expectContains(fileComplaint(inputPath("object.npy")), "has elements '|O'");
  expectContains(fileComplaint(inputPath("counting_f8.npy"), DType::F32),
                 "has f64 elements where f32 is expected: convert with a.astype(np.float32)");
  expectContains(fileComplaint(inputPath("counting_i4.npy"), DType::Bool), "astype(np.bool)");
}

TEST(Npy, NamesFilesThatCannotBeRead) {
  expectContains(fileComplaint("no/such.npy"), "'no/such.npy' cannot be read: No such file");
  expectContains(fileComplaint(DTILE_TEST_INPUTS), "is a directory");
  expectContains(fileComplaint(inputPath("make.py")), "make.py' is not an .npy file");
}

TEST(Npy, RoundTripsEveryTypeAndShape) {
  for (const Shape &shape : {Shape{}, Shape{1}, Shape{7}, Shape{2, 3}, Shape{0, 4}, Shape{2, 1, 5}})
    for (int i = 0; i <= int(DType::F64); ++i) {
      const DType dtype = DType(i);
      const NDArray array = random(dtype, shape, 3);
      llvm::Expected<NDArray> back = parseNpy(formatNpy(array), dtype);
      ASSERT_TRUE(bool(back)) << llvm::toString(back.takeError());
      EXPECT_EQ(back->shape(), shape);
      EXPECT_EQ(back->dtype(), dtype);
      EXPECT_EQ(std::string(static_cast<const char *>(back->data()), back->bytes()),
                std::string(static_cast<const char *>(array.data()), array.bytes()));
    }
}

TEST(Npy, WritesTheBytesThatNumPyWrites) {
  for (const char *name : {"counting_f4.npy", "counting_bool.npy", "vector.npy", "scalar.npy",
                           "empty.npy", "counting_u8.npy"}) {
    llvm::Expected<NDArray> array = readNpy(inputPath(name));
    ASSERT_TRUE(bool(array));
    const auto numpys = llvm::MemoryBuffer::getFile(inputPath(name));
    ASSERT_TRUE(bool(numpys));
    EXPECT_EQ(formatNpy(*array), (*numpys)->getBuffer().str()) << name;
  }
  EXPECT_EQ(formatNpy(NDArray(DType::F32, {3, 4})).substr(10, 60),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ");
  EXPECT_EQ(formatNpy(NDArray(DType::I8, {3})).substr(10, 57),
            "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }");
  EXPECT_EQ(formatNpy(NDArray(DType::BF16, {})).substr(10, 55),
            "{'descr': '<V2', 'fortran_order': False, 'shape': (), }");
}

TEST(Npy, WritesFilesAtOnce) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("dtile-npy", folder));
  llvm::SmallString<128> path = folder;
  llvm::sys::path::append(path, "a.npy");
  const NDArray array = iota(DType::I32, 9);
  EXPECT_FALSE(bool(writeNpy(path, array)));
  llvm::Expected<NDArray> back = readNpy(path);
  ASSERT_TRUE(bool(back));
  EXPECT_EQ(back->toDoubles(), array.toDoubles());
  llvm::SmallString<128> missing = folder;
  llvm::sys::path::append(missing, "none", "a.npy");
  expectContains(llvm::toString(writeNpy(missing, array)), "cannot be written");
  EXPECT_FALSE(llvm::sys::fs::exists(missing));
  llvm::sys::fs::remove_directories(folder);
}

TEST(Npy, AcceptsOtherSpellingsOfTheHeader) {
  EXPECT_EQ(complaint(file("{\"shape\":(2,),'fortran_order':False,'descr':'|u1'}", "ab")), "");
  EXPECT_EQ(complaint(file("{'descr': '|u1', 'fortran_order': False, 'shape': (2L,)}\n", "ab")),
            "");
  EXPECT_EQ(complaint(file(dict("=f4", "(1,)"), "abcd")), "");
}

TEST(Npy, RefusesDamagedHeaders) {
  const std::string damaged = "has a damaged header";
  expectContains(complaint(file("")), damaged);
  expectContains(complaint(file("{}")), damaged);
  expectContains(complaint(file("{'descr': '<f4', 'fortran_order': False}")), damaged);
  expectContains(complaint(file(dict("<f4", "(1,) junk"), "abcd")), damaged);
  expectContains(complaint(file(dict("<f4", "(1,)") + "junk", "abcd")), damaged);
  expectContains(complaint(file(dict("<f4", "(-1,)"))), damaged);
  expectContains(complaint(file(dict("<f4", "(1.5,)"))), damaged);
  expectContains(complaint(file(dict("<f4", "(1,"))), damaged);
  expectContains(complaint(file(dict("<f4", "[1]"))), damaged);
  expectContains(complaint(file(dict("<f4", "(99999999999999999999,)"))), damaged);
  expectContains(complaint(file(dict("<f4", "()", "Maybe"))), damaged);
  expectContains(complaint(file("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
                                "'shape': ()}")),
                 damaged);
  expectContains(complaint(file("{'descr': '<f4")), damaged);
  std::string many = "(";
  for (int i = 0; i < 40; ++i)
    many += "1,";
  expectContains(complaint(file(dict("<f4", many + ")"), "abcd")), damaged);
  expectContains(complaint(file(dict("", "()"))), "has elements of no type");
}

TEST(Npy, RefusesSizesThatTheFileDoesNotHave) {
  expectContains(complaint(file(dict("<f4", "(3,)"), "abcd")),
                 "has 4 bytes of elements where its shape [3] needs 12: it is cut short");
  expectContains(complaint(file(dict("|u1", "(3,)"), "abcd")), "something follows the array");
  expectContains(complaint(file(dict("<f8", "(4611686018427387904, 4)"))), "impossible shape");
  expectContains(complaint(file(dict("<f8", "(1152921504606846976,)"))), "impossible shape");
  expectContains(complaint(file(dict("<f8", "(0, 9223372036854775807, 9)"))), "impossible shape");
  expectContains(complaint(file(dict("|u1", "(1000000000000,)"))), "needs 1000000000000");
}

TEST(Npy, RefusesEveryPrefixOfAFile) {
  const std::string whole = formatNpy(iota(DType::I32, 4));
  EXPECT_EQ(complaint(whole), "");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(complaint(llvm::StringRef(whole).take_front(length)), "") << length;
  std::string future = whole;
  future[6] = 4;
  expectContains(complaint(future), "has format version 4");
}

} // namespace
} // namespace dtile::ndarray
