// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "builder/compile/compile_job.hpp"
#include "builder/process/child.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// What is done around each compilation, for measurements: it may change the job, and calls the
/// other for the reply.
using CompileStep = std::function<CompileReply(const CompileJob&)>;
using AroundCompile = std::function<CompileReply(const CompileJob&, const CompileStep& compile)>;

/// The worker's side: answers compile jobs read from standard input until it is closed. Returns the
/// process's exit status. The process must do nothing else.
[[nodiscard]] int serve_compile_jobs(const AroundCompile& around = {});

struct WorkerOptions {
  /// The program and arguments that end up in serve_compile_jobs; empty: this very program with the
  /// argument `worker`.
  std::vector<std::string> command;
  std::uint64_t memory_limit = 8ULL
                               << 30U;  ///< bytes a worker, or a program it starts, may allocate
};

/// The coordinator's side: one worker process. Owned and used by one thread, which must outlive it:
/// the process is killed when that thread ends, or the program, however it ends.
class Worker {
 public:
  [[nodiscard]] static core::Result<Worker> start(const WorkerOptions& options);
  struct Answer {
    enum class Outcome : std::uint8_t { replied, crashed, timed_out, stopped };
    Outcome outcome = Outcome::crashed;
    CompileReply reply;   ///< when replied
    std::string message;  ///< otherwise: what became of the worker, with the last words it wrote
  };
  /// Sends `job` and waits at most `limit` for the reply. `stop` is a file descriptor that becomes
  /// readable when the build is to stop. After any outcome but `replied` the worker is of no more
  /// use.
  [[nodiscard]] Answer run(const CompileJob& job, std::chrono::milliseconds limit, int stop);

  [[nodiscard]] int process_id() const { return m_child.process_id(); }

 private:
  explicit Worker(Child child);
  Child m_child;
};

}  // namespace cubinary::builder
