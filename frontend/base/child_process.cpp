// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// fork and exec, as posix_spawn cannot tie a child to its parent.
#include "frontend/base/child_process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dtile {

namespace {

using Clock = std::chrono::steady_clock;

std::string words(int error) { return std::error_code(error, std::generic_category()).message(); }

/// Becomes the program; between fork and exec of a process with several threads only system calls
/// are allowed. What failed is written to `failures`.
[[noreturn]] void becomeChild(char *const *arguments, pid_t parent, int output, int failures,
                              unsigned seconds) {
  // What it starts itself is ended with it.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(127);
  // A signal that a program may catch, and a second later one that it may not.
  const rlimit time = {seconds, rlim_t(seconds) + 1};
  ::setrlimit(RLIMIT_CPU, &time);
  // Ignored signals stay so in programs that are started.
  ::signal(SIGPIPE, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      ::dup2(output, STDERR_FILENO) >= 0)
    ::execv(arguments[0], arguments);
  const int error = errno;
  (void)!::write(failures, &error, sizeof(error));
  ::_exit(127);
}

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      read = ends[0];
      write = ends[1];
    }
  }
  ~Pipe() {
    closeWrite();
    if (read >= 0)
      ::close(read);
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;
  void closeWrite() {
    if (write >= 0)
      ::close(write);
    write = -1;
  }
};

/// Takes what there is; false at the end.
bool readSome(int fd, std::string &text) {
  char bytes[1 << 14];
  const ssize_t count = ::read(fd, bytes, sizeof(bytes));
  if (count > 0)
    text.append(bytes, size_t(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

} // namespace

llvm::Expected<ChildResult> runChild(const std::string &program,
                                     llvm::ArrayRef<std::string> arguments, unsigned seconds) {
  std::vector<char *> argv = {const_cast<char *>(program.c_str())};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  Pipe output, failures;
  const pid_t parent = ::getpid();
  const pid_t child = output.write < 0 || failures.write < 0 ? -1 : ::fork();
  if (child < 0)
    return llvm::createStringError("cannot start `" + program + "`: " + words(errno));
  if (child == 0)
    becomeChild(argv.data(), parent, output.write, failures.write, seconds);
  output.closeWrite();
  failures.closeWrite();
  // Comes to its end when the child has become the program.
  int failed = 0;
  ssize_t count = 0;
  while ((count = ::read(failures.read, &failed, sizeof(failed))) < 0 && errno == EINTR) {
  }
  ChildResult result;
  int status = 0;
  rusage used = {};
  const auto end = Clock::now() + std::chrono::seconds(uint64_t(seconds) * kMostWaiting);
  while (true) {
    // What it has started may hold its output open when it has ended, so both are looked at.
    const pid_t ended = ::wait4(child, &status, WNOHANG, &used);
    if (ended == child || (ended < 0 && errno != EINTR))
      break;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) {
      result.isTimedOut = true;
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    pollfd waited = {output.read, POLLIN, 0};
    if (::poll(&waited, 1, int(std::min<int64_t>(left.count(), 20))) > 0)
      // At its end the child is about to end, but may take its time.
      if (!readSome(output.read, result.output))
        ::usleep(1000);
  }
  ::fcntl(output.read, F_SETFL, O_NONBLOCK);
  while (readSome(output.read, result.output)) {
  }
  if (count == sizeof(failed))
    return llvm::createStringError("cannot start `" + program + "`: " + words(failed));
  if (WIFEXITED(status))
    result.code = WEXITSTATUS(status);
  else if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  const auto ownTime = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
  result.isTimedOut |= result.signal == SIGXCPU || (result.signal == SIGKILL && ownTime >= seconds);
  return result;
}

} // namespace dtile
