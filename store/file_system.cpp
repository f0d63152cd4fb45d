// SPDX-License-Identifier: Apache-2.0
#include "store/file_system.hpp"

#include <cerrno>

#include <sys/vfs.h>

#include "core/base/file.hpp"

namespace cubinary::store {

std::optional<std::string_view> network_file_system(std::int64_t magic) {
  // statfs gives 32-bit magics, sign-extended on some systems.
  switch (static_cast<std::uint32_t>(magic)) {
    case 0x6969:
      return "NFS";
    case 0x517B:
    case 0xFE534D42:
      return "SMB";
    case 0xFF534D42:
      return "CIFS";
    case 0x5346414F:
    case 0x6B414653:
      return "AFS";
    case 0x73757245:
      return "Coda";
    case 0x00C36400:
      return "Ceph";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    default:
      return std::nullopt;
  }
}

core::Result<void> refuse_network_file_system(const std::filesystem::path& folder) {
  struct statfs info{};
  if (statfs(folder.c_str(), &info) != 0) {
    return core::fail(core::errno_error("cannot look at " + folder.string(), errno));
  }
  if (const auto name = network_file_system(static_cast<std::int64_t>(info.f_type))) {
    return core::fail(core::ErrorCode::unsupported,
                      folder.string() + " is on " + std::string(*name) +
                          ", where a store cannot be kept safely; put it on a local disk and use "
                          "--server from other machines");
  }
  return {};
}

}  // namespace cubinary::store
