// SPDX-License-Identifier: Apache-2.0
// A measuring process without a device. A candidate's "cubin" is a script, words apart by spaces:
//   us=10          what one launch takes
//   near=1         times scattered by about 1 in 1000, otherwise in 100
//   wrong fault invalid crash exit hang garbage truncate    what loading it does
//   sample-crash sample-nan sample-few sample-long sample-hot sample-wrong sample-hang    what
//                  sampling it does
// A real cubin takes 20 us and 5 more for each step of its first whole template argument from 6.
// FAKE_UUID names the device; FAKE_LOG gets a line a request. With the argument `worker` it is a
// compiling process instead.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include <unistd.h>

#include "builder/compile/worker.hpp"
#include "builder/process/frame.hpp"
#include "builder/tune/message.hpp"

namespace {

using cubinary::builder::TuneReply;
using cubinary::builder::TuneRequest;
using Kind = TuneRequest::Kind;
using State = TuneReply::State;

struct Script {
  std::map<std::string, double> words;
  explicit Script(const std::string& text = "") {
    std::istringstream in(text);
    std::string word;
    while (in >> word) {
      const std::size_t equals = word.find('=');
      words[word.substr(0, equals)] =
          equals == std::string::npos ? 1 : std::atof(word.c_str() + equals + 1);
    }
  }
  [[nodiscard]] bool has(const char* word) const { return words.contains(word); }
  [[nodiscard]] double value(const char* word, double otherwise) const {
    const auto found = words.find(word);
    return found == words.end() ? otherwise : found->second;
  }
};

/// What a candidate is to do: its script, or for a real cubin one made of its entry's name.
std::string script_of(const TuneRequest& request) {
  std::string text = cubinary::core::to_text(request.candidate.cubin);
  if (!text.starts_with("\x7f"
                        "ELF")) {
    return text;
  }
  const std::string& symbol = request.candidate.programs.at(0).launches.at(0).symbol;
  const std::size_t whole = symbol.find("Li");
  const int value = whole == std::string::npos ? 6 : std::atoi(symbol.c_str() + whole + 2);
  return "near us=" + std::to_string(20 + 5 * std::abs(value - 6));
}

[[noreturn]] void hang() {
  while (true) {
    pause();
  }
}

class Fake {
 public:
  TuneReply answer(const TuneRequest& request) {
    TuneReply reply;
    switch (request.kind) {
      case Kind::identify:
      case Kind::open:
        reply.device.device_class = "sm90-s132-l60M-b6016-m136G";
        reply.device.product = "Fake GPU";
        reply.device.uuid =
            std::getenv("FAKE_UUID") == nullptr ? "GPU-fake" : std::getenv("FAKE_UUID");
        reply.device.driver = "580.1";
        reply.device.sm_count = 132;
        reply.device.smem_optin = 232448;
        reply.device.l2_bytes = 62914560;
        break;
      case Kind::peaks:
        reply.numbers = {{"dram_gbps", 4000}, {"l2_gbps", 8000},   {"f32_tflops", 60},
                         {"mma_tflops", 600}, {"clock_mhz", 1980}, {"tick_us", 0.032}};
        break;
      case Kind::problem:
        break;
      case Kind::load:
        load(request, reply);
        break;
      case Kind::sample:
        sample(request, reply);
        break;
      case Kind::drop:
        m_slots.erase(request.slot);
        break;
    }
    return reply;
  }

 private:
  void load(const TuneRequest& request, TuneReply& reply) {
    const Script script(script_of(request));
    reply.max_error = 0.25;
    if (script.has("hang")) {
      hang();
    }
    if (script.has("crash")) {
      std::abort();
    }
    if (script.has("exit")) {
      std::fprintf(stderr, "giving up\n");
      std::exit(3);
    }
    if (script.has("garbage") || script.has("truncate")) {
      const std::string words = script.has("garbage") ? "no answer at all" : "";
      (void)cubinary::builder::send_frame(STDIN_FILENO, cubinary::core::as_bytes(words));
      hang();
    }
    if (script.has("wrong")) {
      reply.state = State::wrong;
      reply.message = "3 of 8 elements of y are wrong";
      reply.max_error = 7;
      return;
    }
    if (script.has("fault")) {
      reply.state = State::fault;
      reply.message = "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS";
      reply.worn = true;
      return;
    }
    if (script.has("invalid")) {
      reply.state = State::invalid;
      reply.message = "a cooperative grid cannot be resident";
      return;
    }
    m_slots[request.slot] = script;
  }

  void sample(const TuneRequest& request, TuneReply& reply) {
    reply.clock_mhz = 1975;
    double slept = 0;
    for (const std::uint32_t slot : request.order) {
      const Script& script = m_slots.at(slot);
      if (script.has("sample-crash")) {
        std::abort();
      }
      if (script.has("sample-hang")) {
        hang();
      }
      if (script.has("sample-wrong")) {
        reply.state = State::wrong;
        reply.message = "it changed its input x while it was timed";
        reply.worn = true;
        return;
      }
      if (script.has("sample-hot")) {
        reply.clock_mhz = 600;
      }
      const double scatter = script.has("near") ? 0.001 : 0.01;
      double us = script.value("us", 10) * (1 + scatter * (m_unit(m_random) - 0.5));
      slept += us;
      if (script.has("sample-nan")) {
        us = std::nan("");
      }
      if (script.has("sample-long")) {
        us = 1e9;
      }
      reply.times_us.push_back(us);
      if (script.has("sample-few")) {
        break;
      }
    }
    usleep(static_cast<useconds_t>(slept * 1.1) + 100);  // as long as it says
  }

  std::map<std::uint32_t, Script> m_slots;
  std::mt19937 m_random{static_cast<unsigned>(getpid())};
  std::uniform_real_distribution<double> m_unit;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace cubinary::builder;
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0) {
    return serve_compile_jobs();
  }
  Fake fake;
  cubinary::core::Bytes bytes;
  std::FILE* log =
      std::getenv("FAKE_LOG") == nullptr ? nullptr : std::fopen(std::getenv("FAKE_LOG"), "a");
  while (receive_frame(STDIN_FILENO, bytes, nullptr, -1) == FrameEnd::done) {
    TuneRequest request;
    if (!unpack(bytes, request)) {
      return 1;
    }
    if (log != nullptr) {
      std::fprintf(log, "%d %.*s\n", static_cast<int>(request.kind),
                   static_cast<int>(std::min<std::size_t>(60, request.candidate.cubin.size())),
                   reinterpret_cast<const char*>(request.candidate.cubin.data()));
      std::fflush(log);
    }
    if (send_frame(STDIN_FILENO, pack(fake.answer(request))) != FrameEnd::done) {
      return 1;
    }
  }
  return 0;
}
