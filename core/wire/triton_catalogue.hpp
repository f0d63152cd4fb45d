// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/model/target.hpp"

/// What a release holds of Triton on one target: schema/triton.md section 3.
namespace cubinary::core {

/// Layers of a target's manifest.
inline constexpr std::string_view k_triton_catalogue_type =
    "application/vnd.cubinary.triton.v1+json";
inline constexpr std::string_view k_triton_pack_type = "application/vnd.cubinary.triton.v1+zstd";
/// Bounds a reader enforces before it takes the memory.
inline constexpr std::uint64_t k_max_triton_catalogue_bytes = 256U << 20U;
inline constexpr std::uint64_t k_max_triton_pack_bytes = 1U << 30U;

/// Which Triton and which Python something was made by and is good for.
struct TritonOrigin {
  std::string triton;      ///< `3.6.0`
  std::string python_abi;  ///< `cp312`; empty: not known, good for any
  std::string machine;     ///< `x86_64`
  friend auto operator<=>(const TritonOrigin&, const TritonOrigin&) = default;
};

/// By file name, the digest of the content.
using TritonFiles = std::map<std::string, Digest>;

/// One compiled specialisation, as Triton's cache holds it.
struct TritonKernel {
  std::string key;
  std::string name;
  TritonOrigin origin;
  std::string group;                             ///< name of the group file, which `files` lacks
  TritonFiles files;                             ///< of the group
  std::map<std::string, std::string> key_parts;  ///< what went into the key, for explaining a miss
};

/// A Python extension that Triton would compile with the host's C compiler.
struct TritonHost {
  std::string source;  ///< SHA-256 of the C source, bare hexadecimal; empty when not known
  std::string name;    ///< `cuda_utils`
  std::string file;    ///< `cuda_utils.cpython-312-x86_64-linux-gnu.so`
  Digest digest;
  std::vector<std::string> keys;  ///< every folder it is looked for in; ascending
  std::string glibc_floor;        ///< `2.14`; empty: none
  TritonOrigin origin;
};

/// Which config won, on one device class.
struct TritonAutotune {
  std::string device_class;
  std::string key;
  TritonFiles files;
  TritonOrigin origin;
};

/// One zstd frame over the concatenation of `files`.
struct TritonPack {
  struct File {
    Digest digest;
    std::uint64_t size = 0;
  };
  Digest digest;
  std::uint64_t size = 0;
  std::uint64_t raw_size = 0;
  std::vector<File> files;
};

struct TritonCatalogue {
  std::string release;
  Target target;
  std::vector<TritonKernel> kernels;     ///< sorted by key
  std::vector<TritonHost> host;          ///< sorted by source, ABI, machine, file
  std::vector<TritonAutotune> autotune;  ///< sorted by device class, key
  std::vector<TritonPack> packs;
};

/// Whether `text` can be a folder of a Triton cache: 1 to 128 letters, digits, `_` or `-`.
[[nodiscard]] bool is_triton_key(std::string_view text);
/// Whether `text` can be a file there: one path component that is neither hidden nor one of
/// Triton's temporaries.
[[nodiscard]] bool is_triton_file(std::string_view text);

/// Canonical: sorted, compact; equal catalogues are equal bytes.
[[nodiscard]] std::string triton_catalogue_to_json(const TritonCatalogue& catalogue);
/// Checks everything that laying files down relies on: names and keys are single path components,
/// every file lies in exactly one pack, sizes add up. Errors are `corrupt`, or `newer_format`.
[[nodiscard]] Result<TritonCatalogue> triton_catalogue_from_json(std::string_view text);

/// Digests under their names: `{"a.json":"<hex>"}`, as catalogue and index have them.
[[nodiscard]] std::map<std::string, std::string> triton_files_as_text(const TritonFiles& files);

}  // namespace cubinary::core
