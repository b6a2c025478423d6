// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as the runtime sees it: the host target's functions around bodies, and the descriptor
// that names them and the devices' images.
#include "backend/launch/descriptor.h"

#include "backend/runtime/device_abi.h"
#include "frontend/base/check.h"
#include "ir/analysis/agreed_arguments.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/notifiers.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/xxhash.h"

#include <map>

namespace dtile::backend::launch {

using ir::Op;
using ir::OpKind;

namespace {

std::string symbolOf(Op &kernel, const llvm::Twine &part) {
  return ("dtile." + kernel.get(ir::attr::name) + "." + part).str();
}

std::string symbolOfSpace(Op &kernel, Op &space) {
  llvm::StringRef name = space.get(ir::attr::name);
  return symbolOf(kernel, name.empty() ? "body" : name);
}

/// Whether something of the kernel writes the object of a parameter.
bool isWritten(Op &kernel, const Op &param) {
  bool found = false;
  ir::walk(kernel, [&](Op &op) {
    if (ir::Value *view = ir::writtenView(op))
      for (const Op *object : ir::objectsOf(view))
        found |= !object || object == &param;
  });
  return found;
}

/// DTILE_PARAM_*.
uint32_t paramFlags(Op &kernel, const Op &param) {
  uint32_t flags = 0;
  if (param.get(ir::attr::zero))
    flags |= DTILE_PARAM_ZERO;
  if (param.get(ir::attr::by_epoch))
    flags |= DTILE_PARAM_IN_TURN;
  if (param.is(OpKind::Param) && param.get(ir::attr::mode) == ir::ParamMode::Symm &&
      isWritten(kernel, param))
    flags |= DTILE_PARAM_WRITTEN;
  if (param.has(ir::attr::default_value))
    flags |= DTILE_PARAM_DEFAULT;
  if (ir::isAxisSize(kernel, param))
    flags |= DTILE_PARAM_AXIS;
  return flags;
}

/// As dtile_arg.scalar_bits; 0 for what has no default value.
uint64_t defaultBits(const Op &param) {
  uint64_t bits = 0;
  if (!param.has(ir::attr::default_value))
    return bits;
  const DType dtype = param.result()->type().elementOrIndex();
  const ir::Attr &value = param.get(ir::attr::default_value);
  if (const auto *real = std::get_if<double>(&value))
    storeFromDouble(dtype, &bits, *real);
  else if (const auto *whole = std::get_if<int64_t>(&value))
    storeFromInt(dtype, &bits, *whole);
  else
    bits = std::get<bool>(value) ? 1 : 0;
  return bits;
}

llvm::Function *lowerPosition(LaunchModule &module, const Frame &frame, Op &space,
                              llvm::StringRef name) {
  /// Lets `rank` be read from the frame.
  struct Function : FrameFunction {
    using FrameFunction::fact;
    using FrameFunction::FrameFunction;
  };
  Function f(module, &frame);
  llvm::IRBuilder<> &b = f.builder();
  auto *type =
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getPtrTy()}, false);
  llvm::Function *function = module.function(name, type);
  f.begin(function, 0);
  llvm::SmallVector<llvm::Value *, 4> at =
      positions(f, b, space, f.fact(OpKind::Rank), function->getArg(1));
  for (auto [d, value] : llvm::enumerate(at))
    b.CreateStore(value, b.CreateConstGEP1_64(b.getInt64Ty(), function->getArg(2), d));
  b.CreateRetVoid();
  f.end();
  return function;
}

llvm::Function *lowerExpected(LaunchModule &module, const Frame &frame, Op &signal) {
  FrameFunction f(module, &frame);
  llvm::IRBuilder<> &b = f.builder();
  llvm::Function *function = module.function(
      symbolOf(frame.kernel(), signal.get(ir::attr::name) + ".expected"),
      llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy(), b.getInt64Ty()}, false));
  module.debug.describe(*function, signal);
  f.begin(function, 0);
  module.debug.moveTo(b, signal);
  b.CreateRet(expectedCount(f, b, signal, function->getArg(1)));
  f.end();
  return function;
}

/// The descriptor of a kernel, which may not be defined yet.
llvm::GlobalVariable *declareDescriptor(LaunchModule &module, llvm::StringRef name) {
  const std::string symbol = ("dtile_kernel_" + name).str();
  if (llvm::GlobalVariable *known = module.module.getNamedGlobal(symbol))
    return known;
  return new llvm::GlobalVariable(module.module, module.abi.kernel, /*isConstant=*/true,
                                  llvm::GlobalValue::ExternalLinkage, nullptr, symbol);
}

/// Whether callers give the parameter.
bool isPassed(const Op &op) {
  return op.is(OpKind::ScalarParam) ||
         (op.is(OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch);
}

/// Fills a descriptor's fields.
class Descriptor {
public:
  Descriptor(LaunchModule &module, Op &kernel, const KernelCode &code)
      : m_(module), kernel_(kernel), code_(code) {}
  void emit();
  /// Instead, that of a name for the kernel and others.
  void emitFamily(llvm::StringRef name, llvm::ArrayRef<Op *> alternatives,
                  const KernelCode &family);

private:
  [[nodiscard]] llvm::Constant *i32(int64_t value) { return m_.i32(value); }
  [[nodiscard]] llvm::Constant *i64(int64_t value) { return m_.i64(value); }
  [[nodiscard]] llvm::Type *pointer() { return llvm::PointerType::getUnqual(m_.context()); }
  [[nodiscard]] llvm::Constant *orNull(llvm::Constant *value) { return value ? value : m_.null(); }
  [[nodiscard]] llvm::Constant *param(Op &op, uint32_t agreed);
  /// A descriptor of the kernel's file.
  void define(llvm::StringRef name, llvm::ArrayRef<llvm::Constant *> fields);
  [[nodiscard]] llvm::StringRef file() const;
  [[nodiscard]] llvm::Constant *space(Op &op, const HostCode::Space &code);
  /// The arrays of spaces and signals, with the functions of some code for processors.
  [[nodiscard]] llvm::SmallVector<llvm::Constant *> spaces(const HostCode *host);
  [[nodiscard]] llvm::SmallVector<llvm::Constant *> signals(const HostCode *host);
  /// Of other code for processors.
  [[nodiscard]] llvm::Constant *variant(int32_t number, const HostCode &host,
                                        llvm::Constant *params, size_t nparams);
  /// The sizes that measured choices depend on, and the rows.
  struct Tuned {
    llvm::Constant *sizes, *rows;
  };
  [[nodiscard]] Tuned tuned(const std::string &prefix, const KernelCode &code,
                            const std::map<int32_t, llvm::Constant *> &hostVariants);
  [[nodiscard]] llvm::Constant *notify(const ir::Notifier &notifier);
  [[nodiscard]] llvm::Constant *image(const DeviceImage &image);
  void emitClauses();
  void emitMesh(llvm::StringRef name);
  void emitText(const llvm::Twine &name, llvm::StringRef text);

  LaunchModule &m_;
  Op &kernel_;
  const KernelCode &code_;
};

/// As launch descriptors have it.
int abiMode(ir::ParamMode mode) {
  switch (mode) {
  case ir::ParamMode::In:
    return DTILE_MODE_IN;
  case ir::ParamMode::Out:
    return DTILE_MODE_OUT;
  case ir::ParamMode::InOut:
    return DTILE_MODE_INOUT;
  case ir::ParamMode::Symm:
    return DTILE_MODE_SYMM;
  case ir::ParamMode::Scratch:
    return DTILE_MODE_SCRATCH;
  }
  DTILE_UNREACHABLE("an unknown mode");
}

llvm::Constant *Descriptor::param(Op &op, uint32_t agreed) {
  int kind = DTILE_PARAM_TENSOR;
  int mode = DTILE_MODE_VALUE;
  int dtype = DTILE_U64;
  const KernelCode::Param &kept = code_.params.at(op.get(ir::attr::param));
  ir::Type type = op.result()->type();
  if (op.is(OpKind::SignalParam)) {
    kind = DTILE_PARAM_SIGNAL;
    mode = DTILE_MODE_SYMM;
  } else if (op.is(OpKind::ScalarParam)) {
    kind = DTILE_PARAM_SCALAR;
    dtype = int(type.elementOrIndex());
  } else {
    dtype = int(type.dtype());
    mode = abiMode(op.get(ir::attr::mode));
  }
  return llvm::ConstantStruct::get(m_.abi.param,
                                   {m_.string(op.get(ir::attr::name)), i32(kind), i32(mode),
                                    i32(dtype), i32(type.rank()), i32(kept.flags), i32(kept.copies),
                                    i32(agreed), i32(0), i64(int64_t(defaultBits(op)))});
}

/// As launch descriptors have it.
int abiFrom(ir::Notifier::From from) {
  switch (from) {
  case ir::Notifier::From::Anybody:
    return DTILE_FROM_ANYBODY;
  case ir::Notifier::From::Position:
    return DTILE_FROM_POSITION;
  case ir::Notifier::From::Before:
    return DTILE_FROM_BEFORE;
  }
  DTILE_UNREACHABLE("an unknown sender");
}

llvm::Constant *Descriptor::notify(const ir::Notifier &notifier) {
  return llvm::ConstantStruct::get(
      m_.abi.notify,
      {i32(notifier.signal->get(ir::attr::param)), i32(abiFrom(notifier.from)), i64(notifier.value),
       m_.siteValue(*notifier.op, notifier.signal->get(ir::attr::name))});
}

llvm::Constant *Descriptor::space(Op &op, const HostCode::Space &code) {
  llvm::SmallVector<llvm::Constant *> vars;
  for (const std::string &var : op.get(ir::attr::vars))
    vars.push_back(m_.string(var));
  llvm::SmallVector<llvm::Constant *> notifies;
  for (const ir::Notifier &notifier : ir::notifiersIn(op))
    notifies.push_back(notify(notifier));
  llvm::Constant *fields[] = {
      m_.string(op.get(ir::attr::name)),
      i32(ir::spaceDims(op)),
      i32(code.afterAll),
      i32(code.ordered),
      i32(code.programs),
      m_.array(symbolOfSpace(kernel_, op) + ".vars", pointer(), vars),
      orNull(code.count),
      orNull(code.position),
      i64(code.workspaceBytes),
      orNull(code.body),
      i32(notifies.size()),
      i32(0),
      m_.array(symbolOfSpace(kernel_, op) + ".notifies", m_.abi.notify, notifies)};
  return llvm::ConstantStruct::get(m_.abi.space, fields);
}

llvm::Constant *Descriptor::image(const DeviceImage &image) {
  const std::string prefix = symbolOf(kernel_, image.arch + "." + llvm::Twine(image.variant));
  llvm::SmallVector<llvm::Constant *> spaces;
  for (const dtile_device_space &space : image.spaces)
    spaces.push_back(llvm::ConstantStruct::get(
        m_.abi.deviceSpace,
        {i32(space.pinned), i32(space.ordered), i32(space.most), i32(space.fill), i32(space.shares),
         i32(space.follows), i32(space.waits), i32(space.exchange), i32(space.divide),
         i32(space.covers)}));
  llvm::SmallVector<llvm::Constant *> scratch;
  for (const dtile_device_scratch &object : image.scratch)
    scratch.push_back(
        llvm::ConstantStruct::get(m_.abi.deviceScratch, {i32(object.param), i32(object.copies),
                                                         i32(object.flagged), i32(0)}));
  static_assert(DTILE_LAUNCH_KINDS == 4);
  const auto entry = [&](dtile_launch_kind kind) {
    return image.entries[kind].empty() ? m_.null() : m_.string(image.entries[kind]);
  };
  llvm::Constant *fields[] = {i32(DTILE_DEVICE_ABI_VERSION),
                              i32(image.format),
                              m_.string(image.target),
                              m_.string(image.arch),
                              m_.string(image.shmem),
                              image.data,
                              i64(image.bytes),
                              entry(DTILE_LAUNCH_PLAIN),
                              entry(DTILE_LAUNCH_SPLIT),
                              entry(DTILE_LAUNCH_SHARED),
                              entry(DTILE_LAUNCH_COPIED),
                              i32(image.threads),
                              i32(image.sharedBytes),
                              i64(image.frameBytes),
                              image.prologue,
                              m_.array(prefix + ".counts", pointer(), image.counts),
                              m_.array(prefix + ".weights", pointer(), image.weights),
                              m_.array(prefix + ".latencies", pointer(), image.latencies),
                              m_.array(prefix + ".shared", pointer(), image.shared),
                              m_.array(prefix + ".remote", pointer(), image.remoteBytes),
                              m_.array(prefix + ".spaces", m_.abi.deviceSpace, spaces),
                              image.loading ? image.loading : m_.null(),
                              image.paired ? image.paired : m_.null(),
                              image.pairedWeight ? image.pairedWeight : m_.null(),
                              i32(image.sites.size()),
                              i32(image.shmemVersion),
                              m_.array(prefix + ".sites", m_.abi.site, image.sites),
                              i32(image.variant),
                              i32(image.protocol),
                              i32(image.launchTime),
                              i32(image.linkRate),
                              m_.string(image.constants),
                              i32(image.mappedSite),
                              i32(image.packedBytes),
                              i64(image.partialBytes),
                              i32(image.scratch.size()),
                              i32(image.pairTime),
                              m_.array(prefix + ".scratch", m_.abi.deviceScratch, scratch),
                              m_.array(prefix + ".engine", pointer(), image.engine)};
  return llvm::ConstantStruct::get(m_.abi.image, fields);
}

/// How a launch runs the bodies of a kernel's spaces, before there is code for them.
std::vector<HostCode::Space> placements(Op &kernel) {
  std::vector<HostCode::Space> found;
  std::vector<llvm::StringRef> names;
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Space))
      continue;
    HostCode::Space &space = found.emplace_back();
    if (op.has(ir::attr::after_all)) {
      const auto it = llvm::find(names, op.get(ir::attr::after_all));
      DTILE_CHECK(it != names.end(), "after_all names an earlier space");
      space.afterAll = int32_t(it - names.begin());
    }
    space.ordered = op.get(ir::attr::ordered);
    space.programs = int32_t(op.getOr(ir::attr::programs, 0));
    names.push_back(op.get(ir::attr::name));
  }
  return found;
}

llvm::SmallVector<llvm::Constant *> Descriptor::spaces(const HostCode *host) {
  const std::vector<HostCode::Space> code = host ? host->spaces : placements(kernel_);
  llvm::SmallVector<llvm::Constant *> found;
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::Space))
      found.push_back(space(op, code[found.size()]));
  return found;
}

llvm::SmallVector<llvm::Constant *> Descriptor::signals(const HostCode *host) {
  llvm::SmallVector<llvm::Constant *> found;
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::SignalParam))
      found.push_back(llvm::ConstantStruct::get(
          m_.abi.signal,
          {i32(op.get(ir::attr::param)), orNull(host ? host->expected[found.size()] : nullptr)}));
  return found;
}

llvm::Constant *Descriptor::variant(int32_t number, const HostCode &host, llvm::Constant *params,
                                    size_t nparams) {
  const std::string prefix = symbolOf(kernel_, "variant" + llvm::Twine(number));
  const auto spaces = this->spaces(&host);
  const auto signals = this->signals(&host);
  llvm::Constant *fields[] = {i32(DTILE_ABI_VERSION),
                              i32(code_.flags),
                              m_.string(entryOf(kernel_)),
                              m_.string(file()),
                              i32(nparams),
                              i32(spaces.size()),
                              i32(signals.size()),
                              /*nalternatives=*/i32(0),
                              params,
                              m_.array(prefix + ".spaces", m_.abi.space, spaces),
                              m_.array(prefix + ".signals", m_.abi.signal, signals),
                              i64(host.frameBytes),
                              orNull(host.prologue),
                              /*nimages=*/i32(0),
                              i32(0),
                              m_.null(),
                              i64(0),
                              i64(0),
                              m_.null(),
                              i32(0),
                              i32(0),
                              m_.null(),
                              m_.null()};
  auto *made = new llvm::GlobalVariable(m_.module, m_.abi.kernel, /*isConstant=*/true,
                                        llvm::GlobalValue::InternalLinkage,
                                        llvm::ConstantStruct::get(m_.abi.kernel, fields), prefix);
  made->setAlignment(llvm::Align(8));
  return made;
}

Descriptor::Tuned Descriptor::tuned(const std::string &prefix, const KernelCode &code,
                                    const std::map<int32_t, llvm::Constant *> &hostVariants) {
  llvm::SmallVector<llvm::Constant *> places, rows;
  for (const auto &[param, dim] : code.tunedSizes)
    places.push_back(llvm::ConstantStruct::get(m_.abi.tunedSize, {i32(param), i32(dim)}));
  for (const auto &[number, row] : llvm::enumerate(code.tuned)) {
    llvm::SmallVector<llvm::Constant *> sizes;
    for (const int64_t size : row.sizes)
      sizes.push_back(i64(size));
    const auto other = hostVariants.find(row.variant);
    rows.push_back(llvm::ConstantStruct::get(
        m_.abi.tunedRow,
        {m_.string(row.machine), m_.string(row.arch), i32(row.ranks), i32(row.variant),
         i32(row.protocol), i32(0),
         m_.array(prefix + ".tuned" + std::to_string(number), llvm::Type::getInt64Ty(m_.context()),
                  sizes),
         row.arch.empty() && other != hostVariants.end() ? other->second : m_.null()}));
  }
  return {m_.array(prefix + ".tuned_sizes", m_.abi.tunedSize, places),
          m_.array(prefix + ".tuned", m_.abi.tunedRow, rows)};
}

/// Of all that was chosen; 0 where nothing was.
uint64_t configurationOf(const KernelCode &code) {
  std::string text;
  for (const TunedRow &row : code.tuned) {
    text += row.machine + ":" + row.arch + ":" + std::to_string(row.ranks) + ":" +
            std::to_string(row.variant);
    for (const int64_t size : row.sizes)
      text += " " + std::to_string(size);
    text += "\n";
  }
  for (const auto &[number, host] : code.hostVariants)
    text += std::to_string(number) + ":" + code.hostConstants.at(number) + "\n";
  for (const DeviceImage &image : code.images)
    if (!image.constants.empty())
      text += image.arch + ":" + image.constants + "\n";
  // Ranks whose models differ would take different variants, and share programs otherwise.
  for (const DeviceImage &image : code.images)
    if (!image.machine.empty())
      text += image.arch + ":" + image.machine + "\n";
  return text.empty() ? 0 : llvm::xxh3_64bits(text);
}

void Descriptor::emit() {
  const HostCode none;
  const HostCode &host = code_.host ? *code_.host : none;
  std::map<int64_t, llvm::Constant *> byPosition;
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::Param) || op.is(OpKind::ScalarParam) || op.is(OpKind::SignalParam))
      byPosition[op.get(ir::attr::param)] = param(op, agreedDims(kernel_, op.get(ir::attr::param)));
  const auto spaces = this->spaces(code_.host.get());
  const auto signals = this->signals(code_.host.get());
  llvm::SmallVector<llvm::Constant *> params;
  for (auto [position, value] : byPosition)
    params.push_back(value);
  llvm::SmallVector<llvm::Constant *> images;
  for (const DeviceImage &code : code_.images)
    images.push_back(image(code));
  llvm::Constant *allParams = m_.array(symbolOf(kernel_, "params"), m_.abi.param, params);
  std::map<int32_t, llvm::Constant *> variants;
  for (const auto &[number, code] : code_.hostVariants)
    variants[number] = variant(number, code, allParams, params.size());
  llvm::StringRef name = entryOf(kernel_);
  const Tuned measured = tuned("dtile." + name.str(), code_, variants);
  llvm::Constant *fields[] = {
      i32(DTILE_ABI_VERSION),
      i32(code_.flags),
      m_.string(name),
      m_.string(file()),
      i32(params.size()),
      i32(spaces.size()),
      i32(signals.size()),
      /*nalternatives=*/i32(0),
      allParams,
      m_.array(symbolOf(kernel_, "spaces"), m_.abi.space, spaces),
      m_.array(symbolOf(kernel_, "signals"), m_.abi.signal, signals),
      i64(host.frameBytes),
      orNull(host.prologue),
      i32(images.size()),
      i32(code_.tuned.size()),
      m_.array(symbolOf(kernel_, "images"), m_.abi.image, images),
      llvm::ConstantInt::get(llvm::Type::getInt64Ty(m_.context()), code_.processorFeatures),
      llvm::ConstantInt::get(llvm::Type::getInt64Ty(m_.context()), configurationOf(code_)),
      /*alternatives=*/m_.null(),
      i32(code_.tunedSizes.size()),
      i32(0),
      measured.sizes,
      measured.rows};
  define(name, fields);
  emitClauses();
}

llvm::StringRef Descriptor::file() const {
  if (m_.source.sources() && kernel_.loc().isValid())
    return m_.source.sources()->presumed(kernel_.loc()).file;
  return {};
}

void Descriptor::define(llvm::StringRef name, llvm::ArrayRef<llvm::Constant *> fields) {
  llvm::GlobalVariable *descriptor = declareDescriptor(m_, name);
  descriptor->setInitializer(llvm::ConstantStruct::get(m_.abi.kernel, fields));
  descriptor->setAlignment(llvm::Align(8));
  emitMesh(name);
}

void Descriptor::emitFamily(llvm::StringRef name, llvm::ArrayRef<Op *> alternatives,
                            const KernelCode &family) {
  std::map<int64_t, llvm::Constant *> byPosition;
  for (Op &op : kernel_.body().ops()) {
    if (!isPassed(op))
      continue;
    // Sizes that all ranks have alike, whichever alternative runs.
    uint32_t agreed = ~0u;
    for (Op *kernel : alternatives)
      for (Op &other : kernel->body().ops())
        if (isPassed(other) && other.get(ir::attr::name) == op.get(ir::attr::name))
          agreed &= agreedDims(*kernel, other.get(ir::attr::param));
    byPosition[op.get(ir::attr::param)] = param(op, agreed);
  }
  llvm::SmallVector<llvm::Constant *> params, kernels;
  for (auto [position, value] : byPosition)
    params.push_back(value);
  for (Op *kernel : alternatives)
    kernels.push_back(declareDescriptor(m_, entryOf(*kernel)));
  const std::string prefix = "dtile." + name.str();
  const Tuned measured = tuned(prefix, family, {});
  llvm::Constant *fields[] = {i32(DTILE_ABI_VERSION),
                              i32(code_.flags),
                              m_.string(name),
                              m_.string(file()),
                              i32(params.size()),
                              /*nspaces=*/i32(0),
                              /*nsignals=*/i32(0),
                              i32(kernels.size()),
                              m_.array(prefix + ".params", m_.abi.param, params),
                              m_.null(),
                              m_.null(),
                              /*frame_bytes=*/i64(0),
                              /*prologue=*/m_.null(),
                              /*nimages=*/i32(0),
                              i32(family.tuned.size()),
                              m_.null(),
                              i64(0),
                              i64(int64_t(configurationOf(family))),
                              m_.array(prefix + ".alternatives", pointer(), kernels),
                              i32(family.tunedSizes.size()),
                              i32(0),
                              measured.sizes,
                              measured.rows};
  define(name, fields);
}

/// What the kernel requires and assumes, for who binds it: text, a line each.
void Descriptor::emitClauses() {
  std::string text;
  for (const std::string &clause : ir::requirementsOf(kernel_))
    text += "requires " + clause + "\n";
  for (const std::string &clause : ir::assumptionsOf(kernel_))
    text += "assumes " + clause + "\n";
  if (!text.empty())
    emitText("dtile_clauses_" + entryOf(kernel_), text);
}

/// The axes of its mesh, a line each: `local L` where the argument L is how many places it has,
/// `local 8` where it has 8 of them.
void Descriptor::emitMesh(llvm::StringRef name) {
  if (!kernel_.has(ir::attr::mesh))
    return;
  std::string text;
  for (const std::string &axis : kernel_.get(ir::attr::mesh))
    text += axis + "\n";
  emitText("dtile_mesh_" + name, text);
}

void Descriptor::emitText(const llvm::Twine &name, llvm::StringRef text) {
  llvm::Constant *value = llvm::ConstantDataArray::getString(m_.context(), text);
  new llvm::GlobalVariable(m_.module, value->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, value, name);
}

} // namespace

std::map<std::string, std::vector<Op *>> familiesOf(ir::Module &module) {
  std::map<std::string, std::map<unsigned, Op *>> found;
  for (Op &op : module.body().ops()) {
    if (!op.is(OpKind::Kernel) || !op.has(ir::attr::families) ||
        op.getOr(ir::attr::variant, 0) != 0)
      continue;
    for (llvm::StringRef family : op.get(ir::attr::families)) {
      unsigned place = 0;
      family.consumeInteger(10, place);
      found[family.ltrim().str()][place] = &op;
    }
  }
  std::map<std::string, std::vector<Op *>> families;
  for (const auto &[name, byPlace] : found)
    for (const auto &[place, kernel] : byPlace)
      families[name].push_back(kernel);
  return families;
}

llvm::StringRef entryOf(const Op &kernel) {
  return kernel.has(ir::attr::entry) ? kernel.get(ir::attr::entry) : kernel.get(ir::attr::name);
}

void KernelCode::include(Op &kernel, bool isForDevice) {
  bool hasBarrier = kernel.get(ir::attr::entry_barrier);
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Param) && !op.is(OpKind::ScalarParam) && !op.is(OpKind::SignalParam))
      continue;
    Param &param = params[op.get(ir::attr::param)];
    param.flags |= paramFlags(kernel, op);
    if (!op.is(OpKind::Param))
      continue;
    param.copies =
        std::max(param.copies, isForDevice ? scratchCopies(op) : op.getOr(ir::attr::copies, 1));
    // On devices a launch makes the next one's zeros.
    hasBarrier |= isForDevice && op.get(ir::attr::zero);
  }
  flags |= hasBarrier ? DTILE_KERNEL_ENTRY_BARRIER : 0;
  ir::walk(kernel, [&](const Op &op) {
    if (isForDevice && op.is(OpKind::Print))
      flags |= DTILE_KERNEL_PRINTS;
  });
}

uint32_t agreedDims(Op &kernel, int64_t param) {
  uint32_t agreed = 0;
  for (const Op *dim : ir::comparedDims(kernel))
    if (dim->get(ir::attr::param) == param)
      agreed |= 1u << dim->get(ir::attr::dim);
  return agreed;
}

HostCode lowerHostCode(
    LaunchModule &module, Frame &frame,
    llvm::function_ref<void(Op &space, llvm::StringRef name, HostCode::Space &code)> body) {
  Op &kernel = frame.kernel();
  HostCode code;
  code.spaces = placements(kernel);
  size_t number = 0;
  code.prologue = lowerPrologue(module, frame, symbolOf(kernel, "prologue"));
  for (Op &op : kernel.body().ops()) {
    if (op.is(OpKind::SignalParam))
      code.expected.push_back(op.body().empty() ? nullptr : lowerExpected(module, frame, op));
    if (!op.is(OpKind::Space))
      continue;
    const std::string name = symbolOfSpace(kernel, op);
    HostCode::Space &space = code.spaces[number++];
    body(op, name, space);
    space.count = lowerCount(module, frame, op, name + ".count");
    space.position = lowerPosition(module, frame, op, name + ".position");
  }
  code.frameBytes = frame.bytes();
  return code;
}

void lowerFamily(LaunchModule &module, llvm::StringRef name, llvm::ArrayRef<Op *> alternatives,
                 const KernelCode &first, const KernelCode &family) {
  Descriptor(module, *alternatives.front(), first).emitFamily(name, alternatives, family);
}

void lowerDescriptor(LaunchModule &module, Op &kernel, const KernelCode &code) {
  Descriptor(module, kernel, code).emit();
}

} // namespace dtile::backend::launch
