// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/gpu_worker.hpp"

#include <utility>

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::chrono::milliseconds k_open_limit{120'000};  // drivers without persistence are slow

}  // namespace

GpuWorker::Answer GpuWorker::ask(const TuneRequest& request, std::chrono::milliseconds limit) {
  using Outcome = Answer::Outcome;
  Answer answer;
  if (!m_child) {
    ChildOptions options;
    options.command = m_options.command;
    if (options.command.empty()) {
      options.command = {"/proc/self/exe", "tune-worker"};
    }
    options.name = "the measuring process";
    auto started = Child::start(options);
    if (!started) {
      answer.message = started.error().message;
      return answer;
    }
    m_child.emplace(std::move(*started));
    m_device_open = false;
    ++m_starts;
  }
  Child::Answer heard = m_child->ask(pack(request), limit, m_options.stop);
  switch (heard.outcome) {
    case Child::Answer::Outcome::replied:
      if (unpack(heard.reply, answer.reply) &&
          answer.reply.state <= TuneReply::State::environment) {
        answer.outcome = Outcome::replied;
        if (answer.reply.worn) {
          m_child.reset();
        }
        return answer;
      }
      answer.outcome = Outcome::garbled;
      answer.message = "the measuring process answered with something that is no answer";
      break;
    case Child::Answer::Outcome::ended:
      answer.outcome = Outcome::ended;
      answer.message = std::move(heard.message);
      break;
    case Child::Answer::Outcome::timed_out:
      answer.outcome = Outcome::timed_out;
      answer.message = "no answer within " + std::to_string(limit.count()) + " ms";
      break;
    case Child::Answer::Outcome::stopped:
      answer.outcome = Outcome::stopped;
      answer.message = "stopped";
      break;
  }
  m_child.reset();
  return answer;
}

Result<DeviceSpec> GpuWorker::ask_device(TuneRequest::Kind kind) {
  TuneRequest request;
  request.kind = kind;
  request.slot = static_cast<std::uint32_t>(m_options.device);
  Answer answer = ask(request, k_open_limit);
  if (answer.outcome == Answer::Outcome::stopped) {
    return fail(ErrorCode::cancelled, "stopped");
  }
  if (answer.outcome != Answer::Outcome::replied) {
    return fail(ErrorCode::environment, answer.message);
  }
  if (answer.reply.state != TuneReply::State::ok) {
    return fail(ErrorCode::environment, answer.reply.message);
  }
  return std::move(answer.reply.device);
}

Result<DeviceSpec> GpuWorker::identify() {
  return ask_device(TuneRequest::Kind::identify);
}

Result<DeviceSpec> GpuWorker::open() {
  if (!is_open()) {
    TRY_ASSIGN(m_device, ask_device(TuneRequest::Kind::open));
    m_device_open = true;
  }
  return m_device;
}

}  // namespace cubinary::builder
