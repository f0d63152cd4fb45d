// SPDX-License-Identifier: Apache-2.0
#include "core/driver/driver_version.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.hpp"

namespace cubinary::core {
namespace {

std::string version_text(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

struct BranchVersion {
  int branch;
  int cuda_version;
};
constexpr std::array k_branches = {
    BranchVersion{520, 11080}, BranchVersion{525, 12000}, BranchVersion{530, 12010},
    BranchVersion{535, 12020}, BranchVersion{545, 12030}, BranchVersion{550, 12040},
    BranchVersion{555, 12050}, BranchVersion{560, 12060}, BranchVersion{565, 12070},
    BranchVersion{570, 12080}, BranchVersion{575, 12090}, BranchVersion{580, 13000},
    BranchVersion{590, 13010},
};

}  // namespace

std::optional<int> parse_driver_branch(std::string_view text) {
  // "NVRM version: NVIDIA UNIX … Kernel Module [for x86_64]  580.65.06  …": the first word like
  // 580.65
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = text.find_first_not_of(" \t\n", at);
    if (begin == text.npos) {
      break;
    }
    const auto end = std::min(text.find_first_of(" \t\n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    at = end;
    if (word.size() > 4 && word[3] == '.' && std::isdigit(static_cast<unsigned char>(word[4])) &&
        std::isdigit(static_cast<unsigned char>(word[0])) &&
        std::isdigit(static_cast<unsigned char>(word[1])) &&
        std::isdigit(static_cast<unsigned char>(word[2]))) {
      return std::atoi(std::string(word.substr(0, 3)).c_str());
    }
  }
  return std::nullopt;
}

std::optional<int> driver_branch() {
  // Files in /proc have no size to go by.
  UniqueFd file(::open("/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC));
  if (!file) {
    return std::nullopt;
  }
  std::array<char, 4096> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  return size <= 0 ? std::nullopt
                   : parse_driver_branch({text.data(), static_cast<std::size_t>(size)});
}

int cuda_version_of_branch(int branch) {
  int version = branch > k_branches.back().branch ? k_branches.back().cuda_version + 10 : 0;
  for (const auto& row : k_branches) {
    if (row.branch >= branch) {
      version = row.cuda_version;
      break;
    }
  }
  return version;
}

Result<void> check_driver(int cuda_version, int minimum_branch, std::string_view what) {
  const int needed = cuda_version_of_branch(minimum_branch);
  if (cuda_version >= needed) {
    return {};
  }
  const auto branch = driver_branch();
  return fail(ErrorCode::driver,
              std::string(what) + " needs driver " + std::to_string(minimum_branch) + " (CUDA " +
                  version_text(needed) + ") or newer; this machine's " +
                  (branch ? "driver " + std::to_string(*branch) + " " : std::string("driver ")) +
                  "is for CUDA " + version_text(cuda_version));
}

}  // namespace cubinary::core
