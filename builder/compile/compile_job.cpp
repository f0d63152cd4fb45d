// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/compile_job.hpp"

#include "builder/process/archive.hpp"

namespace cubinary::builder {

using core::Bytes;
using core::ByteView;
using core::ErrorCode;
using core::fail;
using core::Result;

template <typename Archive>
static void fields(Archive& archive, Of<Archive, CompileJob>& job) {
  archive(job.backend, job.compiler, job.folder, job.main_name, job.main_source, job.entries,
          job.options, job.seed, job.header_use);
}

template <typename Archive>
static void fields(Archive& archive, Of<Archive, CompileReply>& reply) {
  archive(reply.status, reply.message, reply.log, reply.cubin, reply.symbols, reply.version_major,
          reply.version_minor, reply.cpu_ms);
}

namespace {

auto garbled() {
  return fail(ErrorCode::corrupt, "a compile worker's message is garbled");
}

}  // namespace

Bytes encode(const CompileJob& job) {
  return pack(job);
}

Bytes encode(const CompileReply& reply) {
  return pack(reply);
}

Result<CompileJob> decode_job(ByteView bytes) {
  CompileJob job;
  if (!unpack(bytes, job) || job.backend > core::Backend::nvcc ||
      job.header_use > HeaderUse::many) {
    return garbled();
  }
  return job;
}

Result<CompileReply> decode_reply(ByteView bytes) {
  CompileReply reply;
  if (!unpack(bytes, reply) || reply.status > CompileReply::Status::environment) {
    return garbled();
  }
  return reply;
}

}  // namespace cubinary::builder
