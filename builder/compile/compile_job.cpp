// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/compile_job.hpp"

#include <bit>

#include "builder/inspect/elf.hpp"

namespace cubinary::builder {

using core::Bytes;
using core::ByteView;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

class Encoder {
 public:
  Encoder& number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) {
      m_bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    return *this;
  }
  Encoder& bytes(ByteView view) {
    number(view.size());
    m_bytes.insert(m_bytes.end(), view.begin(), view.end());
    return *this;
  }
  Encoder& text(std::string_view text) { return bytes(core::as_bytes(text)); }
  Encoder& texts(const std::vector<std::string>& list) {
    number(list.size());
    for (const std::string& each : list) {
      text(each);
    }
    return *this;
  }
  [[nodiscard]] Bytes take() { return std::move(m_bytes); }

 private:
  Bytes m_bytes;
};

class Decoder {
 public:
  explicit Decoder(ByteView bytes) : m_rest(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    m_ok = m_ok && read_little_endian(m_rest, 0, value);
    if (m_ok) {
      m_rest = m_rest.subspan(8);
    }
    return value;
  }
  ByteView bytes() {
    const std::uint64_t size = number();
    m_ok = m_ok && size <= m_rest.size();
    if (!m_ok) {
      return {};
    }
    const ByteView view = m_rest.first(size);
    m_rest = m_rest.subspan(size);
    return view;
  }
  std::string text() { return core::to_text(bytes()); }
  std::vector<std::string> texts() {
    std::vector<std::string> list;
    for (std::uint64_t left = number(); m_ok && left > 0; --left) {
      list.push_back(text());
    }
    return list;
  }
  [[nodiscard]] bool complete() const { return m_ok && m_rest.empty(); }

 private:
  ByteView m_rest;
  bool m_ok = true;
};

auto garbled() {
  return fail(ErrorCode::corrupt, "a compile worker's message is garbled");
}

}  // namespace

Bytes encode(const CompileJob& job) {
  return Encoder()
      .number(static_cast<std::uint64_t>(job.backend))
      .text(job.compiler)
      .text(job.folder)
      .text(job.main_name)
      .text(job.main_source)
      .texts(job.entries)
      .texts(job.options)
      .text(job.seed)
      .take();
}

Bytes encode(const CompileReply& reply) {
  return Encoder()
      .number(static_cast<std::uint64_t>(reply.status))
      .text(reply.message)
      .text(reply.log)
      .bytes(reply.cubin)
      .texts(reply.symbols)
      .number(static_cast<std::uint64_t>(reply.version_major))
      .number(static_cast<std::uint64_t>(reply.version_minor))
      .number(std::bit_cast<std::uint64_t>(reply.cpu_ms))
      .take();
}

Result<CompileJob> decode_job(ByteView bytes) {
  Decoder in(bytes);
  CompileJob job;
  job.backend = static_cast<core::Backend>(in.number());
  job.compiler = in.text();
  job.folder = in.text();
  job.main_name = in.text();
  job.main_source = in.text();
  job.entries = in.texts();
  job.options = in.texts();
  job.seed = in.text();
  if (!in.complete() || job.backend > core::Backend::nvcc) {
    return garbled();
  }
  return job;
}

Result<CompileReply> decode_reply(ByteView bytes) {
  Decoder in(bytes);
  CompileReply reply;
  reply.status = static_cast<CompileReply::Status>(in.number());
  reply.message = in.text();
  reply.log = in.text();
  const ByteView cubin = in.bytes();
  reply.cubin.assign(cubin.begin(), cubin.end());
  reply.symbols = in.texts();
  reply.version_major = static_cast<std::int64_t>(in.number());
  reply.version_minor = static_cast<std::int64_t>(in.number());
  reply.cpu_ms = std::bit_cast<double>(in.number());
  if (!in.complete() || reply.status > CompileReply::Status::environment) {
    return garbled();
  }
  return reply;
}

}  // namespace cubinary::builder
