// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/worker.hpp"

namespace cubinary::builder {

using core::Result;

Worker::Worker(Child child) : m_child(std::move(child)) {
}

Result<Worker> Worker::start(const WorkerOptions& options) {
  ChildOptions child;
  child.command = options.command;
  if (child.command.empty()) {
    child.command = {"/proc/self/exe", "worker"};
  }
  child.name = "the compiler";
  child.memory_limit = options.memory_limit;
  TRY_ASSIGN(Child started, Child::start(child));
  return Worker(std::move(started));
}

Worker::Answer Worker::run(const CompileJob& job, std::chrono::milliseconds limit, int stop) {
  using Outcome = Answer::Outcome;
  Answer answer;
  Child::Answer heard = m_child.ask(encode(job), limit, stop);
  switch (heard.outcome) {
    case Child::Answer::Outcome::replied:
      if (auto reply = decode_reply(heard.reply)) {
        answer.outcome = Outcome::replied;
        answer.reply = std::move(*reply);
        return answer;
      }
      m_child.kill();
      answer.message = "the compile worker's answer was garbled";
      return answer;
    case Child::Answer::Outcome::ended:
      answer.message = std::move(heard.message);
      return answer;
    case Child::Answer::Outcome::timed_out:
      answer.outcome = Outcome::timed_out;
      answer.message = "the compiler was stopped after " +
                       (limit.count() % 1000 == 0 ? std::to_string(limit.count() / 1000) + " s"
                                                  : std::to_string(limit.count()) + " ms") +
                       " (--time-limit)";
      return answer;
    case Child::Answer::Outcome::stopped:
      answer.outcome = Outcome::stopped;
      answer.message = "stopped";
      return answer;
  }
  return answer;
}

}  // namespace cubinary::builder
