// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fork has the analysis already, so nothing is read or checked again. It writes one line of JSON
// a kernel, and a last one at its end.
#include "editors/lsp/proofs.h"

#include "editors/lsp/fixes.h"
#include "frontend/ast/ast_visitor.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtile::lsp {

namespace {

namespace json = llvm::json;

// A proof that wants more is given up.
constexpr rlim_t kMemoryBytes = rlim_t(4) << 30;
// A lower priority than the editor's.
constexpr int kNice = 10;

void writeAll(int descriptor, llvm::StringRef text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      ::_exit(1);
    text = text.drop_front(size_t(count));
  }
}

/// Where the call that begins at a place ends.
struct CallEnds : ast::Walker<CallEnds> {
  using ast::Walker<CallEnds>::visit;
  bool visit(const ast::CallExpr &e) {
    ends.try_emplace(e.range.begin, e.range.end);
    return true;
  }
  std::map<SourceLoc, SourceLoc> ends;
};

json::Value lensOf(const Analysis &analysis, const KernelProof &proof) {
  return json::Object{
      {"range", analysis.range(proof.place)},
      {"command", json::Object{{"title", json::fixUTF8(proof.title)}, {"command", ""}}}};
}

json::Value hintOf(const Analysis &analysis, const KernelProof::Wait &wait, SourceLoc end) {
  const std::string label = wait.count == "1" ? "1 notify" : wait.count + " notifies";
  return json::Object{{"position", analysis.range({end, end}).start},
                      {"label", json::fixUTF8("each: " + label)},
                      {"paddingLeft", true},
                      {"data", analysis.range({wait.place, wait.place}).start},
                      {"tooltip", "how many notifies of this launch the wait waits for at each "
                                  "cell, as the compiler has derived it"}};
}

json::Value lineOf(const Analysis &analysis, const CallEnds &calls, const KernelProof &proof,
                   const Diagnostics &diagnostics) {
  json::Object messages;
  for (auto &[file, list] : messagesOf(analysis, diagnostics))
    messages[file] = std::move(list);
  json::Object line{{"messages", std::move(messages)}, {"fixes", fixesOf(analysis, diagnostics)}};
  if (analysis.isInRoot(proof.place.begin))
    line["lens"] = lensOf(analysis, proof);
  json::Array hints;
  for (const KernelProof::Wait &wait : proof.waits)
    if (const auto end = calls.ends.find(wait.place);
        end != calls.ends.end() && analysis.isInRoot(wait.place))
      hints.push_back(hintOf(analysis, wait, end->second));
  line["hints"] = std::move(hints);
  return line;
}

void append(json::Array &into, const json::Array *from) {
  for (const json::Value &each : from ? *from : json::Array())
    into.push_back(each);
}

// False where the line is none of ours.
bool addLine(llvm::StringRef text, Proofs &proofs) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return false;
  }
  const json::Object *line = value->getAsObject();
  if (!line)
    return false;
  proofs.isComplete |= line->getBoolean("end").value_or(false);
  if (const json::Object *messages = line->getObject("messages"))
    for (const auto &[file, list] : *messages)
      append(proofs.messages[file.str()], list.getAsArray());
  if (const json::Value *lens = line->get("lens"))
    proofs.lenses.push_back(*lens);
  append(proofs.hints, line->getArray("hints"));
  append(proofs.fixes, line->getArray("fixes"));
  return true;
}

} // namespace

bool Prover::start(const std::string &document, std::shared_ptr<const Analysis> analysis,
                   uint64_t work) {
  cancel();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return false;
  const pid_t server = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return false;
  }
  if (child == 0) {
    // It ends with the server, also where that has ended already.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != server)
      ::_exit(1);
    ::close(ends[0]);
    runChild(*analysis, work, ends[1]);
  }
  ::close(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  process_ = child;
  pipe_ = ends[0];
  document_ = document;
  received_.clear();
  return true;
}

void Prover::runChild(const Analysis &analysis, uint64_t work, int output) const {
  // The protocol's streams are the server's.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  const rlimit memory = {kMemoryBytes, kMemoryBytes};
  ::setrlimit(RLIMIT_AS, &memory);
  const rlimit noCore = {0, 0};
  ::setrlimit(RLIMIT_CORE, &noCore);
  (void)!::nice(kNice);
  CallEnds calls;
  for (const sema::Program::ModuleFile &module : analysis.program->modules())
    if (module.file == analysis.root)
      calls.walk(*module.tree);
  auto write = [&](const json::Value &line) {
    std::string text;
    llvm::raw_string_ostream(text) << line << '\n';
    writeAll(output, text);
  };
  prove_(analysis, work, [&](const KernelProof &proof, const Diagnostics &diagnostics) {
    write(lineOf(analysis, calls, proof, diagnostics));
  });
  write(json::Object{{"end", true}});
  // Nothing is destroyed: the memory is a copy.
  ::_exit(0);
}

void Prover::cancel() {
  if (!isRunning())
    return;
  ::kill(process_, SIGKILL);
  finish();
}

void Prover::finish() {
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(pipe_);
  process_ = -1;
  pipe_ = -1;
}

bool Prover::poll(Proofs &proofs) {
  bool isNew = false;
  while (isRunning()) {
    char bytes[16384];
    const ssize_t count = ::read(pipe_, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      break;
    if (count > 0) {
      received_.append(bytes, size_t(count));
      for (size_t end = received_.find('\n'); end != std::string::npos;
           end = received_.find('\n')) {
        isNew |= addLine(llvm::StringRef(received_).take_front(end), proofs);
        received_.erase(0, end + 1);
      }
      continue;
    }
    finish();
    proofs.hasFailed = !proofs.isComplete;
    isNew = true;
  }
  return isNew;
}

} // namespace dtile::lsp
