// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_checks.hpp"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/table.hpp"
#include "client/cache.hpp"
#include "client/keys.hpp"
#include "core/base/file.hpp"
#include "core/driver/driver_version.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr std::uint64_t k_little_room = 256ULL << 20U;
/// A clock before this one's making makes everything look unexpired.
constexpr std::int64_t k_earliest_now = 1'735'689'600;  // 2025-01-01
constexpr std::int64_t k_soon = std::int64_t{14} * 86'400;

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string file_system_name(const fs::path& path) {
  struct statfs info{};
  if (::statfs(path.c_str(), &info) != 0) {
    return "unknown file system";
  }
  switch (static_cast<std::uint64_t>(info.f_type)) {
    case 0xEF53:
      return "ext";
    case 0x9123683E:
      return "btrfs";
    case 0x58465342:
      return "xfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlay";
    case 0x6969:
      return "nfs";
    case 0xFF534D42:
    case 0xFE534D42:
      return "smb";
    case 0x0BD00BD0:
      return "lustre";
    case 0x65735546:
      return "fuse";
    case 0x73717368:
      return "squashfs";
    case 0x2FC12FC1:
      return "zfs";
    default:
      return "file system of another kind";
  }
}

/// The folder itself, or the nearest one above it that exists.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored);
  while (!fs::exists(path, ignored) && path != path.root_path()) {
    path = path.parent_path();
  }
  return path;
}

std::string date_of(std::int64_t seconds) {
  return seconds == 0 ? "never" : format_time(seconds);
}

}  // namespace

Machine check_driver_and_devices(Findings& findings) {
  Machine machine;
  const auto branch = core::driver_branch();
  std::error_code ignored;
  const bool node = fs::exists("/dev/nvidiactl", ignored) || fs::exists("/dev/dxg", ignored);
  const auto driver = core::Driver::get();
  if (!driver) {
    findings.push_back({"driver", "libcuda", State::lacking, driver.error().message,
                        node ? "mount the driver's libraries into the container (NVIDIA Container "
                               "Toolkit: NVIDIA_DRIVER_CAPABILITIES=compute)"
                             : "run on a machine with an NVIDIA GPU, or pass the GPU into the "
                               "container (docker run --gpus all)"});
  } else {
    machine.cuda_version = (*driver)->cuda_version;
    findings.push_back(
        {"driver", "libcuda", State::ok, "CUDA " + cuda_text(machine.cuda_version), ""});
  }
  findings.push_back(
      {"driver", "kernel driver", branch || driver ? State::ok : State::lacking,
       branch ? "branch " + std::to_string(*branch) : std::string("no /proc/driver/nvidia/version"),
       branch || driver ? "" : "install the NVIDIA driver on the host"});
  if (!driver) {
    return machine;
  }
  const core::Driver& d = **driver;
  int count = 0;
  if (const auto counted = d.check(d.device_count(&count), "cuDeviceGetCount"); !counted) {
    findings.push_back({"device", "GPUs", State::lacking, counted.error().message,
                        "see `nvidia-smi` and the kernel log"});
    return machine;
  }
  if (count == 0) {
    findings.push_back({"device", "GPUs", State::lacking, "the driver shows none",
                        "CUDA_VISIBLE_DEVICES may hide them"});
  }
  for (int i = 0; i < count; ++i) {
    core::cuda::Device device = 0;
    const std::string name = "GPU " + std::to_string(i);
    const auto got = d.check(d.device_get(&device, i), "cuDeviceGet");
    auto read = got ? core::read_device(d, device)
                    : core::Result<core::DeviceFactsRead>(core::fail(got.error()));
    if (!read) {
      findings.push_back({"device", name, State::lacking, read.error().message,
                          "see `nvidia-smi` and the kernel log"});
      continue;
    }
    findings.push_back(
        {"device", name, State::ok, read->name + ", " + read->device_class.text(), ""});
    machine.devices.push_back(*std::move(read));
  }
  return machine;
}

void check_cache(const std::string& directory, Findings& findings) {
  const fs::path folder =
      directory.empty() ? client::Cache::default_directory() : fs::path(directory);
  if (folder.empty()) {
    findings.push_back({"cache", "folder", State::note,
                        "none: neither CUBINARY_CACHE, XDG_CACHE_HOME nor HOME is set",
                        "what is fetched stays in memory, for each process anew; set "
                        "CUBINARY_CACHE"});
    return;
  }
  const fs::path part = existing_part(folder);
  struct statvfs room{};
  const bool known = ::statvfs(part.c_str(), &room) == 0;
  const std::uint64_t free = known ? std::uint64_t{room.f_bavail} * room.f_frsize : 0;
  const std::string where = folder.string() + " (" + file_system_name(part) +
                            (known ? ", " + format_bytes(free) + " free" : "") + ")";
  // Only trying tells: permissions, read-only mounts, quotas and security modules all have a say.
  const fs::path probe = part / (".cubinary-doctor-" + std::to_string(::getpid()));
  const auto written = core::write_file_atomic(probe, core::as_bytes("x"));
  std::error_code ignored;
  fs::remove(probe, ignored);
  if (!written) {
    findings.push_back({"cache", "folder", State::note, where + ": " + written.error().message,
                        "what is fetched stays in memory, for each process anew; set "
                        "CUBINARY_CACHE to a folder that can be written, or fill this one when "
                        "the image is built (cubinary-fetch)"});
  } else if (known && free < k_little_room) {
    findings.push_back({"cache", "folder", State::note, where,
                        "little room: a release may not fit; set CUBINARY_CACHE elsewhere"});
  } else {
    findings.push_back({"cache", "folder", State::ok, where, ""});
  }
}

void check_keys(const std::vector<std::string>& keys, Findings& findings) {
  if (keys.empty()) {
    findings.push_back({"key", "public key", State::lacking, "none is given",
                        "name the release's .pub file: --key, or CUBINARY_KEY for programs"});
  }
  for (const std::string& file : keys) {
    const auto loaded = client::load_keys(std::vector<std::string>{file});
    if (!loaded) {
      findings.push_back({"key", file, State::lacking, loaded.error().message,
                          "name the .pub file that `cubinary keygen` wrote"});
    } else {
      findings.push_back({"key", file, State::ok, loaded->front().key_id().substr(0, 16), ""});
    }
  }
  const std::int64_t now = std::time(nullptr);
  if (now < k_earliest_now) {
    findings.push_back({"key", "clock", State::lacking, "it says " + date_of(now),
                        "set the clock: expiry dates and certificates are judged by it"});
  }
}

std::unique_ptr<client::Release> check_source(const SourceArguments& arguments,
                                              const Machine& machine, Findings& findings) {
  // A doctor changes nothing: it remembers no serial, and keeps nothing.
  auto memory = std::make_shared<client::Cache>(client::Cache::Options{});
  const auto deadline = client::deadline_after(arguments.timeout_seconds);
  SourceArguments source = arguments;
  std::erase_if(source.keys, [](const std::string& file) {
    return !client::load_keys(std::vector<std::string>{file});  // which `check_keys` has said
  });
  source.allow_unsigned = arguments.allow_unsigned || source.keys.empty();
  auto release = open_release(source, memory, deadline, false);
  // What a program would stop at does not stop the look for more.
  for (bool again = true; !release && again;) {
    const auto code = release.error().code;
    const bool network = code == core::ErrorCode::network || code == core::ErrorCode::timeout;
    findings.push_back({"source", arguments.source, State::lacking, release.error().message,
                        network ? "check address, proxy, DNS and firewall; a folder is a source "
                                  "too (cubinary export)"
                                : ""});
    again = false;
    if (code == core::ErrorCode::expired && !source.allow_expired) {
      again = source.allow_expired = true;
    } else if (code == core::ErrorCode::signature && !source.keys.empty()) {
      source.keys.clear();
      again = source.allow_unsigned = true;
    }
    if (again) {
      release = open_release(source, memory, deadline, false);
    }
  }
  if (!release) {
    return nullptr;
  }
  const auto& statement = (*release)->statement();
  std::string about = "release " + (*release)->name();
  State state = State::ok;
  std::string remedy;
  if (statement) {
    about += ", serial " + std::to_string(statement->serial) + ", expires " +
             date_of(statement->expires);
    const std::int64_t left = statement->expires - std::time(nullptr);
    if (statement->expires != 0 && left < k_soon) {
      state = State::note;
      remedy = "it expires soon: release and sign anew";
    }
  } else {
    about += ", signature not checked";
  }
  findings.push_back({"source", arguments.source, state, about, remedy});
  if (machine.devices.empty()) {
    return *std::move(release);
  }
  for (const core::DeviceFactsRead& device : machine.devices) {
    std::string targets;
    int needed = 0;
    for (const core::Target& target : (*release)->targets()) {
      if (!target.runs_on(device.device_class.capability)) {
        continue;
      }
      const auto tables = (*release)->tables(target, deadline);
      if (!tables) {
        findings.push_back({"source", target.text(), State::lacking, tables.error().message, ""});
        continue;
      }
      const auto fits =
          core::check_driver(machine.cuda_version, (*tables)->minimum_driver(), target.text());
      if (!fits) {
        needed = (*tables)->minimum_driver();
        continue;
      }
      targets += (targets.empty() ? "" : ", ") + target.text() + " (" +
                 std::to_string((*tables)->size()) + " kernels)";
    }
    if (!targets.empty()) {
      findings.push_back({"source", "code for " + device.name, State::ok, targets, ""});
    } else if (needed != 0) {
      findings.push_back({"source", "code for " + device.name, State::lacking,
                          "it needs driver " + std::to_string(needed),
                          "install driver branch " + std::to_string(needed) + " or newer"});
    } else {
      std::string has;
      for (const core::Target& target : (*release)->targets()) {
        has += (has.empty() ? "" : ", ") + target.text();
      }
      findings.push_back({"source", "code for " + device.name, State::lacking,
                          "none; the release has " + has,
                          "build and release for " + device.device_class.text().substr(0, 5)});
    }
  }
  return *std::move(release);
}

}  // namespace cubinary::cli
