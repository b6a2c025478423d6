// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels compiled for a device, as the runtime finds them: descriptors, images, and the host's
// side of a launch, here without a device.
#include "backend/launch/package.h"
#include "backend/runtime/device_abi.h"
#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtile::backend {
namespace {

using testing::HasSubstr;

constexpr const char *kRoles = R"(
kernel @roles {
  %N = launch.dim {dim = 0, param = 0} : index
  %W = num_ranks : index
  %e = epoch : index
  %zero = const {value = 0} : index
  %one = const {value = 1} : index
  %two = const {value = 2} : index
  %slot = rem %e, %two : index
  %x = param @x %N {mode = "in", param = 0} : view<f32, 1>
  %box = param @box %W, %N {copies = 3, mode = "scratch", param = 1} : view<f32, 2>
  %taken = param @taken %N {mode = "scratch", param = 2, zero = true} : view<i32, 1>
  %ready = signal_param @ready %W, %two {param = 3} : signal<2> (%c0: index, %c1: index) {
    %r = cmp %c1, %slot {pred = "eq"} : bool
    %n = select %r, %N, %zero : index
    yield %n
  }
  %asked = signal_param @asked %W {param = 4} : signal<1> {
  }
  space @first %zero, %N, %one {vars = ["i"]} (%i: index) {
    %v = view.slice %x, %i {dims = "i"} : view<f32, 0>
    yield
  }
  space @second %zero, %W, %one {after_all = "first", ordered = true, vars = ["p"]} (%p: index) {
    yield
  }
  space @third %zero, %N, %two {programs = 7, vars = ["i"]} (%i: index) {
    yield
  }
  return
}
)";

struct Module {
  SourceManager sources;
  ir::TypeContext types;
  std::unique_ptr<ir::Module> module;

  explicit Module(const std::string &text) {
    Diagnostics diagnostics(sources);
    module = ir::parseModule(sources.add("test.dtir", text), sources, types, diagnostics);
    std::string report;
    llvm::raw_string_ostream os(report);
    printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, os);
    EXPECT_TRUE(module) << report;
    if (module)
      EXPECT_THAT(ir::verify(*module), testing::IsEmpty());
  }

  std::unique_ptr<launch::LoadedKernels> load(const std::string &arch) {
    TargetOptions options;
    options.arch = arch;
    options.assemble = false;
    auto loaded = launch::load(*findTarget("nvptx"), *module, options);
    if (!loaded) {
      ADD_FAILURE() << llvm::toString(loaded.takeError());
      return nullptr;
    }
    return std::move(*loaded);
  }
};

TEST(DeviceImage, DescriptorsOfDevicesHaveImagesAndNoHostCode) {
  Module module(kRoles);
  const auto loaded = module.load("sm_80");
  ASSERT_TRUE(loaded);
  const dtile_kernel_desc *desc = loaded->find("roles");
  ASSERT_TRUE(desc);
  EXPECT_EQ(desc->abi_version, uint32_t(DTILE_ABI_VERSION));
  EXPECT_EQ(desc->prologue, nullptr);
  EXPECT_EQ(desc->nspaces, 3);
  EXPECT_EQ(desc->spaces[0].body, nullptr);
  ASSERT_EQ(desc->nimages, 1);
  const dtile_device_image &image = desc->images[0];
  EXPECT_EQ(image.device_abi_version, uint32_t(DTILE_DEVICE_ABI_VERSION));
  EXPECT_EQ(image.format, int32_t(DTILE_IMAGE_PTX));
  EXPECT_STREQ(image.target, "nvptx");
  EXPECT_STREQ(image.arch, "sm_80");
  EXPECT_STREQ(image.shmem, "p2p");
  EXPECT_STREQ(image.entries[DTILE_LAUNCH_COPIED], "roles");
  EXPECT_EQ(image.threads, 128);
  const llvm::StringRef ptx(static_cast<const char *>(image.data), size_t(image.bytes));
  EXPECT_TRUE(ptx.ends_with(llvm::StringRef("\0", 1)));
  EXPECT_THAT(ptx.str(), HasSubstr(".visible .entry roles("));
  EXPECT_THAT(ptx.str(), HasSubstr(".target sm_80"));
}

TEST(DeviceImage, ImagesSayHowTheyUseScratchObjects) {
  std::string text = kRoles;
  const std::string box = "copies = 3, mode = \"scratch\", param = 1";
  for (const bool isFlagged : {false, true}) {
    if (isFlagged)
      text.insert(text.find(box), "ll = true, ");
    Module module(text);
    const auto loaded = module.load("sm_90a");
    ASSERT_TRUE(loaded);
    const dtile_device_image &image = loaded->find("roles")->images[0];
    ASSERT_EQ(image.nscratch, 2);
    EXPECT_EQ(image.scratch[0].param, 1);
    EXPECT_EQ(image.scratch[0].copies, 3);
    EXPECT_EQ(image.scratch[0].flagged, isFlagged ? 1 : 0);
    // What is zeroed a launch ahead.
    EXPECT_EQ(image.scratch[1].param, 2);
    EXPECT_EQ(image.scratch[1].copies, 2);
    EXPECT_EQ(image.scratch[1].flagged, 0);
  }
}

TEST(DeviceImage, KernelsThatPrintAskForMemoryOfTheHost) {
  std::string text = kRoles;
  const std::string place = "    %v = view.slice %x";
  Module silent(text);
  text.insert(text.find(place), "    print %i {message = \"i\"}\n");
  Module printing(text);
  for (Module *module : {&silent, &printing}) {
    TargetOptions options;
    options.arch = "sm_90a";
    options.assemble = false;
    options.prints = true;
    auto loaded = launch::load(*findTarget("nvptx"), *module->module, options);
    ASSERT_TRUE(bool(loaded)) << llvm::toString(loaded.takeError());
    EXPECT_EQ((*loaded)->find("roles")->flags & DTILE_KERNEL_PRINTS,
              module == &printing ? DTILE_KERNEL_PRINTS : 0u);
  }
}

TEST(DeviceImage, KernelsThatAreCompiledForItCanBeTraced) {
  Module module(kRoles);
  for (const bool isTraced : {false, true}) {
    TargetOptions options;
    options.arch = "sm_90a";
    options.assemble = false;
    options.isTraced = isTraced;
    auto loaded = launch::load(*findTarget("nvptx"), *module.module, options);
    ASSERT_TRUE(bool(loaded)) << llvm::toString(loaded.takeError());
    EXPECT_EQ((*loaded)->find("roles")->flags & DTILE_KERNEL_TRACED,
              isTraced ? DTILE_KERNEL_TRACED : 0u);
  }
}

TEST(DeviceImage, SpacesSayWhatTheirShareOfProgramsDependsOn) {
  Module module(kRoles);
  const auto loaded = module.load("sm_80");
  ASSERT_TRUE(loaded);
  const dtile_device_image &image = loaded->find("roles")->images[0];
  EXPECT_EQ(image.spaces[0].pinned, 0);
  EXPECT_EQ(image.spaces[0].ordered, 0);
  EXPECT_EQ(image.spaces[1].ordered, 1);
  EXPECT_EQ(image.spaces[2].pinned, 7);
  // What comes behind another waits for it.
  EXPECT_EQ(image.spaces[0].waits, 0);
  EXPECT_EQ(image.spaces[1].waits, 1);
}

TEST(DeviceImage, ScratchThatIsZeroedHasACopyAheadAndRanksMeet) {
  Module module(kRoles);
  const auto loaded = module.load("sm_80");
  ASSERT_TRUE(loaded);
  const dtile_kernel_desc *desc = loaded->find("roles");
  EXPECT_TRUE(desc->flags & DTILE_KERNEL_ENTRY_BARRIER);
  EXPECT_EQ(desc->params[1].copies, 3);
  EXPECT_EQ(desc->params[2].copies, 2);
}

TEST(DeviceImage, ASpaceThatTheEpochEmptiesHasAProgramForReplays) {
  Module module(R"(
kernel @sometimes {
  %N = launch.dim {dim = 0, param = 0} : index
  %e = epoch : index
  %zero = const {value = 0} : index
  %one = const {value = 1} : index
  %slot = and %e, %one : index
  %x = param @x %N {mode = "in", param = 0} : view<f32, 1>
  space @every %zero, %N, %one {vars = ["i"]} (%i: index) {
    yield
  }
  space @second %zero, %slot, %one {vars = ["i"]} (%i: index) {
    yield
  }
  return
}
)");
  const auto loaded = module.load("sm_80");
  ASSERT_TRUE(loaded);
  const dtile_device_image &image = loaded->find("sometimes")->images[0];
  // A frame of launch 0 with no elements.
  alignas(64) const char frame[4096] = {};
  ASSERT_LE(image.frame_bytes, int64_t(sizeof(frame)));
  EXPECT_EQ(image.counts[0](frame), 0);
  EXPECT_EQ(image.counts[1](frame), 1);
  EXPECT_GE(image.weights[1](frame, 0, 1, 132), 1);
}

TEST(DeviceImage, AFrameThatIsTooLargeIsAnError) {
  // Each view has its own sizes: 9 words of the frame, and 6 strides.
  std::string text = "kernel @wide {\n  %zero = const {value = 0} : index\n"
                     "  %one = const {value = 1} : index\n";
  std::string uses;
  for (int i = 0; i < 400; ++i) {
    const std::string n = std::to_string(i);
    std::string sizes;
    for (int d = 0; d < 6; ++d) {
      const std::string name = "%d" + n + "_" + std::to_string(d);
      text += "  " + name + " = launch.dim {dim = " + std::to_string(d) + ", param = " + n +
              "} : index\n";
      sizes += (d ? ", " : " ") + name;
    }
    text += "  %x" + n + " = param @x" + n + sizes + " {mode = \"in\", param = " + n +
            "} : view<f32, 6>\n";
    uses += "    %t" + n + " = load %x" + n + "v : f32\n";
    uses.insert(uses.rfind("    %t"), "    %x" + n + "v = view.slice %x" + n +
                                          ", %zero, %zero, %zero, %zero, %zero, %zero "
                                          "{dims = \"iiiiii\"} : view<f32, 0>\n");
  }
  text += "  space @all %zero, %one, %one {vars = [\"i\"]} (%i: index) {\n" + uses +
          "    yield\n  }\n  return\n}\n";
  Module module(text);
  ASSERT_TRUE(module.module);
  TargetOptions options;
  options.assemble = false;
  auto loaded = launch::load(*findTarget("nvptx"), *module.module, options);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(llvm::toString(loaded.takeError()), HasSubstr("has room for 32"));
}

TEST(DeviceImage, TooManySpacesAreAnError) {
  std::string text = "kernel @many {\n  %zero = const {value = 0} : index\n"
                     "  %one = const {value = 1} : index\n";
  for (int i = 0; i <= DTILE_DEVICE_MAX_SPACES; ++i)
    text += "  space @s" + std::to_string(i) +
            " %zero, %one, %one {vars = [\"i\"]} (%i: index) {\n    yield\n  }\n";
  text += "  return\n}\n";
  Module module(text);
  ASSERT_TRUE(module.module);
  TargetOptions options;
  options.assemble = false;
  auto loaded = launch::load(*findTarget("nvptx"), *module.module, options);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(llvm::toString(loaded.takeError()), HasSubstr("is one of more than 32 spaces"));
}

/// `body` has `%there`, this rank's neighbour's part of `y`.
std::string sendingKernel(const std::string &body) {
  return R"(
kernel @sends {
  %w = num_ranks : index
  %n = const {value = 4096} : index
  %x = param @x %n {mode = "in", param = 0} : view<f32, 1>
  %y = param @y %n {mode = "symm", param = 1} : view<f32, 1>
  space @main {vars = []} {
    %me = rank : index
    %one = const {value = 1} : index
    %next = add %me, %one : index
    %peer = rem %next, %w : index
    %there = view.at %y, %peer : view<f32, 1, remote>
)" + body +
         "    yield\n  }\n  return\n}\n";
}

/// The object of the first access that wants other ranks' memory mapped; "" where there is none.
std::string mappedObject(const std::string &text, const std::string &shmem) {
  Module module(text);
  // An installation whose functions are there and do nothing.
  const std::string home = testing::TempDir() + "/fake_nvshmem";
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const auto library = llvm::parseIRFile(
      DTILE_TEST_INPUTS "/../../../codegen/Inputs/fake_nvshmem.ll", error, context);
  EXPECT_TRUE(library) << error.getMessage().str();
  EXPECT_FALSE(llvm::sys::fs::create_directories(home + "/lib"));
  std::error_code failed;
  llvm::raw_fd_ostream file(home + "/lib/libnvshmem_device.bc", failed);
  EXPECT_FALSE(failed);
  llvm::WriteBitcodeToFile(*library, file);
  file.close();
  TargetOptions options;
  options.arch = "sm_90a";
  options.assemble = false;
  options.shmem = shmem;
  options.shmemPath = shmem == "nvshmem" ? home : "";
  auto loaded = launch::load(*findTarget("nvptx"), *module.module, options);
  if (!loaded)
    return llvm::toString(loaded.takeError());
  const dtile_device_image &image = (*loaded)->find("sends")->images[0];
  EXPECT_LT(image.mapped_site, image.nsites);
  return image.mapped_site < 0 ? "" : image.sites[image.mapped_site].what;
}

TEST(DeviceImage, SaysWhatWantsTheMemoryOfOtherRanksMapped) {
  const std::string put = sendingKernel("    %sent = put %x, %there : token\n    await %sent\n");
  const std::string load = sendingKernel("    %slice = view.slice %there, %me {dims = \"i\"} : "
                                         "view<f32, 0, remote>\n    %v = load %slice : f32\n");
  const std::string none = sendingKernel("");
  EXPECT_EQ(mappedObject(put, "p2p"), "y");
  EXPECT_EQ(mappedObject(load, "p2p"), "y");
  EXPECT_EQ(mappedObject(none, "p2p"), "");
  // Those that send need it for what they do not send.
  EXPECT_EQ(mappedObject(put, "nvshmem"), "");
  EXPECT_EQ(mappedObject(load, "nvshmem"), "y");
}

TEST(DeviceImage, ArchitecturesAreKnown) {
  Module module(kRoles);
  TargetOptions options;
  options.arch = "sm_7";
  auto loaded = launch::load(*findTarget("nvptx"), *module.module, options);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(llvm::toString(loaded.takeError()),
              HasSubstr("`sm_7` is no architecture of target `nvptx`, which has"));
}

} // namespace
} // namespace dtile::backend
