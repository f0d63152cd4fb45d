// SPDX-License-Identifier: Apache-2.0
// The part of the C interface that lays Triton caches down. It shares nothing with contexts.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/include/cubinary.h"
#include "client/keys.hpp"
#include "client/triton_hydrate.hpp"

namespace {

namespace core = cubinary::core;
namespace client = cubinary::client;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr double k_timeout_seconds = 600;
constexpr unsigned k_most_threads = 8;

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    if (colon != 0) {
      parts.emplace_back(list.substr(0, colon));
    }
    list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
  }
  return parts;
}

Result<void> hydrate(const char* source, const char* keys, const char* folder,
                     const char* device_class) {
  if (source == nullptr || keys == nullptr || folder == nullptr) {
    return fail(ErrorCode::usage, "source, keys and folder must not be NULL");
  }
  client::HydrateOptions options;
  options.folder = folder;
  options.source = source;
  options.width = std::clamp(std::thread::hardware_concurrency(), 1U, k_most_threads);
  options.filter.machine = client::this_machine();
  if (device_class != nullptr && *device_class != '\0') {
    TRY_ASSIGN(options.filter.device_class, core::DeviceClass::parse(device_class));
  }
  TRY_ASSIGN(const client::SourceName name, client::SourceName::parse(source));
  client::ReleaseOptions release_options;
  TRY_ASSIGN(release_options.trust.keys, client::load_keys(split(keys)));
  if (const char* token = std::getenv("CUBINARY_TOKEN"); token != nullptr) {
    release_options.token = client::trimmed_token(token);
  }
  release_options.deadline = client::deadline_after(k_timeout_seconds);
  const auto cache = client::triton_document_cache(options.folder, {});
  TRY_ASSIGN(const auto release, client::Release::open(name, release_options, cache));
  const auto report = client::hydrate_triton(*release, options, release_options.deadline);
  if (!report) {
    return fail(report.error());
  }
  // The cache stands without the release's documents.
  (void)cache->flush();
  return {};
}

cubinary_status tell(const core::Error& error, char* message, std::size_t message_size) {
  if (message != nullptr && message_size > 0) {
    const std::size_t length = std::min(error.message.size(), message_size - 1);
    std::memcpy(message, error.message.data(), length);
    message[length] = '\0';
  }
  return static_cast<cubinary_status>(error.code);
}

}  // namespace

extern "C" cubinary_status cubinary_triton_hydrate(const char* source, const char* keys,
                                                   const char* folder, const char* device_class,
                                                   char* message, size_t message_size) {
  try {
    const auto done = hydrate(source, keys, folder, device_class);
    return done ? CUBINARY_OK : tell(done.error(), message, message_size);
  } catch (const std::exception& thrown) {
    return tell({ErrorCode::internal, std::string("internal error: ") + thrown.what()}, message,
                message_size);
  }
}
