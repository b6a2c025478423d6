// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The handlers of a process. The one file of this library that catches exceptions: they come from
// the C++ library (threads that cannot start, sizes that no container can have).
#include "frontend/base/process.h"

#include "frontend/base/check.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <unistd.h>

namespace dtile {

namespace {

// A handler of `operator new` takes no argument, so how it speaks is kept here.
std::atomic<DiagnosticForm> lastForm = DiagnosticForm::Text;

/// Text in memory that is there already. What is too long is cut.
class LastWords {
public:
  LastWords &operator<<(llvm::StringRef text) {
    const size_t taken = std::min(text.size(), sizeof(bytes_) - used_);
    std::memcpy(bytes_ + used_, text.data(), taken);
    used_ += taken;
    return *this;
  }
  /// What may stand between quotes of JSON.
  LastWords &plain(llvm::StringRef text) {
    for (char c : text)
      *this << (c == '"' || c == '\\' || c < ' ' ? llvm::StringRef(" ") : llvm::StringRef(&c, 1));
    return *this;
  }
  void print() const {
    size_t done = 0;
    while (done < used_) {
      const ssize_t count = ::write(STDERR_FILENO, bytes_ + done, used_ - done);
      if (count <= 0)
        return;
      done += size_t(count);
    }
  }

private:
  char bytes_[1024];
  size_t used_ = 0;
};

/// Tells a row's text, whose hole {0} is the phase and {1} `detail`, without memory of its own.
/// Removes the temporary files, and ends. Other threads may run on meanwhile, so nothing is
/// destroyed.
[[noreturn]] void end(diag::Id id, llvm::StringRef detail = "") {
  // Threads run out of memory together; the first one speaks for all, and ends them.
  static std::atomic<bool> isEnding{false};
  if (isEnding.exchange(true))
    while (true)
      ::pause();
  LastWords words;
  const DiagInfo &info = diagInfo(id);
  const llvm::StringRef phase = currentPhase();
  const bool isJson = lastForm.load() == DiagnosticForm::Json;
  if (isJson)
    words << "[{\"code\":\"" << info.code << "\",\"severity\":\"error\",\"message\":\"";
  else
    words << "error: ";
  for (llvm::StringRef text = info.text; !text.empty();) {
    if (text.consume_front("{0}")) {
      if (!phase.empty())
        words << " (" << phase << ")";
    } else if (text.consume_front("{1}")) {
      words.plain(detail);
    } else {
      words << text.take_front(1);
      text = text.drop_front(1);
    }
  }
  if (isJson)
    words << "\",\"notes\":[],\"fixes\":[]}]\n";
  else
    words << " [" << info.code << "]\n";
  words.print();
  llvm::sys::RunInterruptHandlers();
  ::_exit(1);
}

[[noreturn]] void endOutOfMemory() { end(diag::out_of_memory); }

void endOfLlvm(void *, const char *, bool) { endOutOfMemory(); }

[[noreturn]] void endByException() {
  try {
    if (std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::bad_alloc &) {
    endOutOfMemory();
  } catch (const std::exception &error) {
    end(diag::library_failed, error.what());
  } catch (...) {
    std::abort();
  }
  std::abort();
}

} // namespace

void setUpProcess() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    // The lowest free number is what open() gives. A stream that can be read only refuses what is
    // written, so that the loss is seen.
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) != stream)
      ::_exit(1);
  std::signal(SIGPIPE, SIG_IGN);
  // Of a file that may not grow, the write has the error.
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(endOutOfMemory);
  std::set_terminate(endByException);
  llvm::install_bad_alloc_error_handler(endOfLlvm);
}

void setLastWords(DiagnosticForm form) { lastForm = form; }

bool closeStreams() {
  auto close = [](llvm::raw_fd_ostream &stream, llvm::StringRef name) {
    stream.flush();
    if (!stream.has_error())
      return true;
    const std::error_code error = stream.error();
    // LLVM ends the program where an error is left.
    stream.clear_error();
    // `dtilec … | head` closes the pipe: nobody is left to be told.
    if (error != std::errc::broken_pipe && !name.empty())
      llvm::errs() << "error: cannot write " << name << ": " << error.message() << " ["
                   << diagInfo(diag::cannot_write).code << "]\n";
    return false;
  };
  const bool hasOut = close(llvm::outs(), "standard output");
  return close(llvm::errs(), "") && hasOut;
}

} // namespace dtile
