// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

struct ChildOptions {
  /// The program and its arguments; it answers frames on its standard input (a socket).
  std::vector<std::string> command;
  std::string name;                ///< for messages: "the compiler"
  std::uint64_t memory_limit = 0;  ///< bytes it, or a program it starts, may allocate; 0: no limit
};

/// A worker process that answers frames, one at a time. Owned and used by one thread, which must
/// outlive it: the process and all it started are killed when that thread ends, or the program,
/// however it ends. What it writes to standard output and error is kept for messages.
class Child {
 public:
  [[nodiscard]] static core::Result<Child> start(const ChildOptions& options);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) noexcept;
  /// Kills the process and all it started.
  ~Child();

  struct Answer {
    enum class Outcome : std::uint8_t { replied, ended, timed_out, stopped };
    Outcome outcome = Outcome::ended;
    core::Bytes reply;    ///< when replied
    std::string message;  ///< when ended: what became of it, with the last words it wrote
  };
  /// Sends a frame and waits at most `limit` for one back. `stop`, if not negative, is a file
  /// descriptor that becomes readable when the caller is to stop. After any outcome but `replied`
  /// the process is gone.
  [[nodiscard]] Answer ask(core::ByteView request, std::chrono::milliseconds limit, int stop);

  /// Ends the process at once: what it said made no sense.
  void kill();
  [[nodiscard]] int process_id() const;

 private:
  struct Impl;
  explicit Child(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace cubinary::builder
