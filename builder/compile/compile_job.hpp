// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace cubinary::builder {

/// Whether a worker should make precompiled headers for a job, if it has none for its kind.
enum class HeaderUse : std::uint8_t {
  unknown,  ///< at the second job of the kind
  few,      ///< no: too few jobs will follow for what making them costs
  many,     ///< yes
};

/// One compilation as a worker process is asked for it.
struct CompileJob {
  core::Backend backend = core::Backend::nvrtc;
  std::string compiler;              ///< NVRTC's library or nvcc's program, an absolute path
  std::string folder;                ///< the manifest's: relative options and includes start there
  std::string main_name;             ///< what `__FILE__` says in the main unit
  std::string main_source;           ///< text of the main unit
  std::vector<std::string> entries;  ///< name expressions to instantiate
  std::vector<std::string> options;  ///< in order
  std::string seed;  ///< hex digits for internal-linkage names: same inputs, same bytes
  HeaderUse header_use = HeaderUse::unknown;
};

/// What a worker answers.
struct CompileReply {
  enum class Status : std::uint8_t {
    ok,
    failed,       ///< the compiler said no; `message` is its first error
    environment,  ///< the compiler could not be used at all
  };
  Status status = Status::failed;
  std::string message;  ///< one sentence unless ok
  std::string log;      ///< the compiler's, with the assembler's resource lines
  core::Bytes cubin;
  std::vector<std::string>
      symbols;  ///< mangled name an entry, empty where only the cubin tells (nvcc)
  std::int64_t version_major = 0;  ///< the compiler's
  std::int64_t version_minor = 0;
  double cpu_ms = 0;  ///< user and system time of the worker and its children
};

/// The bytes of a message on the worker's socket.
[[nodiscard]] core::Bytes encode(const CompileJob& job);
[[nodiscard]] core::Bytes encode(const CompileReply& reply);
/// Errors are `corrupt`.
[[nodiscard]] core::Result<CompileJob> decode_job(core::ByteView bytes);
[[nodiscard]] core::Result<CompileReply> decode_reply(core::ByteView bytes);

}  // namespace cubinary::builder
