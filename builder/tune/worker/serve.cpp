// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/worker/serve.hpp"

#include <memory>

#include <unistd.h>

#include "builder/process/frame.hpp"
#include "builder/tune/message.hpp"
#include "builder/tune/worker/bench.hpp"

namespace cubinary::builder {

namespace {

using State = TuneReply::State;

class Server {
 public:
  TuneReply answer(const TuneRequest& request) {
    TuneReply reply;
    if (const auto done = handle(request, reply); !done) {
      reply.state = State::environment;
      reply.message = done.error().message;
      reply.worn = true;
    }
    return reply;
  }

 private:
  core::Result<void> handle(const TuneRequest& request, TuneReply& reply) {
    if (request.kind == TuneRequest::Kind::identify) {
      TRY_ASSIGN(reply.device, Gpu::identify(static_cast<int>(request.slot)));
      return {};
    }
    if (request.kind == TuneRequest::Kind::open) {
      TRY_ASSIGN(m_gpu, Gpu::open(static_cast<int>(request.slot)));
      TRY_ASSIGN(m_bench, Bench::make(*m_gpu));
      reply.device = m_gpu->spec();
      return {};
    }
    if (m_bench == nullptr) {
      return core::fail(core::ErrorCode::environment, "the device is not open");
    }
    switch (request.kind) {
      case TuneRequest::Kind::peaks: {
        TRY_ASSIGN(reply.numbers, m_bench->measure_peaks());
        break;
      }
      case TuneRequest::Kind::problem:
        return m_bench->set_problem(request.problem);
      case TuneRequest::Kind::load:
        m_bench->load(request.slot, request.candidate, reply);
        break;
      case TuneRequest::Kind::sample:
        m_bench->sample(request.order, reply);
        break;
      case TuneRequest::Kind::drop:
        m_bench->drop(request.slot);
        break;
      case TuneRequest::Kind::identify:
      case TuneRequest::Kind::open:
        break;
    }
    return {};
  }

  std::unique_ptr<Gpu> m_gpu;
  std::unique_ptr<Bench> m_bench;
};

}  // namespace

int serve_tune_requests() {
  Server server;
  core::Bytes bytes;
  while (receive_frame(STDIN_FILENO, bytes, nullptr, -1) == FrameEnd::done) {
    TuneRequest request;
    if (!unpack(bytes, request)) {
      return 1;
    }
    if (send_frame(STDIN_FILENO, pack(server.answer(request))) != FrameEnd::done) {
      return 1;
    }
  }
  // Without destructors: after a fault they would only wait for a lost device.
  _exit(0);
}

}  // namespace cubinary::builder
