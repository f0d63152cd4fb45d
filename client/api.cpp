// SPDX-License-Identifier: Apache-2.0
// The C boundary: checks and copies what comes in, turns errors and exceptions into statuses.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "client/cache.hpp"
#include "client/include/cubinary.h"
#include "client/kernel.hpp"
#include "client/keys.hpp"
#include "client/session.hpp"
#include "core/driver/process.hpp"

using cubinary::client::ArgumentValue;
using cubinary::client::Kernel;
using cubinary::client::Session;
using cubinary::client::SessionOptions;
using cubinary::core::Error;
using cubinary::core::ErrorCode;
using cubinary::core::fail;
using cubinary::core::Result;
namespace core = cubinary::core;
namespace client = cubinary::client;

static_assert(static_cast<int>(ErrorCode::internal) == CUBINARY_ERROR_INTERNAL);
static_assert(static_cast<int>(ErrorCode::unsupported) == CUBINARY_ERROR_UNSUPPORTED);
static_assert(sizeof(ArgumentValue) == sizeof(cubinary_arg) &&
              offsetof(ArgumentValue, size) == offsetof(cubinary_arg, size));

static_assert(static_cast<int>(client::EventKind::damaged) == CUBINARY_EVENT_DAMAGED);

struct cubinary_context {
  std::shared_ptr<Session> session;
  unsigned generation = core::fork_generation();
};

struct cubinary_kernel {
  std::unique_ptr<Kernel> kernel;
  unsigned generation = core::fork_generation();
  // What cubinary_kernel_info points to.
  std::string interface_digest;
  std::string release;
  std::string target;
  std::string device_class;
  std::string config;
  std::string match;
  std::string artifact;
};

namespace {

thread_local std::string g_message;

cubinary_status report(const Error& error) noexcept {
  try {
    g_message = error.message;
  } catch (...) {
    g_message.clear();
  }
  return static_cast<cubinary_status>(error.code);
}

/// Runs `body`, which returns a Result<void>; nothing it throws gets out.
template <typename Body>
cubinary_status guarded(Body&& body) noexcept {
  try {
    if (const Result<void> result = body(); !result) {
      return report(result.error());
    }
    return CUBINARY_OK;
  } catch (const std::bad_alloc&) {
    return report({ErrorCode::too_large, "out of memory"});
  } catch (const std::exception& error) {
    return report({ErrorCode::internal,
                   std::string("internal error: ") + error.what() + " (please report it)"});
  } catch (...) {
    return report({ErrorCode::internal, "internal error (please report it)"});
  }
}

Error null_argument(std::string_view what) {
  return {ErrorCode::usage, std::string(what) + " is NULL"};
}

/// What belongs to the process this one was forked from lacks its threads and may hold its locks.
template <typename Handle>
Result<void> check_process(const Handle* handle, std::string_view what) {
  if (handle == nullptr) {
    return fail(null_argument(what));
  }
  if (handle->generation != core::fork_generation()) [[unlikely]] {
    return fail(ErrorCode::usage,
                "this " + std::string(what) +
                    " belongs to the process that this one was forked from: open the release again "
                    "here");
  }
  return {};
}

/// A caller's struct, which may be of an older or a newer version of the header.
template <typename T>
Result<T> copy_in(const T* given, const char* name) {
  if (given == nullptr) {
    return fail(null_argument(name));
  }
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > 65'536) {
    return fail(ErrorCode::usage, std::string(name) + ".size is " + std::to_string(size) +
                                      ": set it to sizeof(" + name + ") (CUBINARY_INIT does)");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return fail(ErrorCode::unsupported, std::string(name) +
                                              " uses a field that libcubinary " CUBINARY_VERSION
                                              " does not know: install a newer one");
    }
  }
  T copy{};
  std::memcpy(&copy, given, std::min(size, sizeof(T)));
  return copy;
}

template <typename T>
Result<void> copy_out(T value, T* out, const char* name) {
  TRY(copy_in(out, name));
  std::size_t size = 0;
  std::memcpy(&size, out, sizeof size);
  value.size = size;
  std::memcpy(out, &value, std::min(size, sizeof(T)));
  return {};
}

std::string text_or(const char* text, const char* variable) {
  if (text != nullptr) {
    return text;
  }
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

void warn(const std::string& message) {
  std::fprintf(stderr, "cubinary: warning: %s\n", message.c_str());
}

Result<SessionOptions> session_options(const cubinary_options& given) {
  SessionOptions options;
  const std::string source = text_or(given.source, "CUBINARY_SOURCE");
  if (source.empty()) {
    return fail(ErrorCode::usage,
                "no source: set cubinary_options.source or CUBINARY_SOURCE to a server's URL or an "
                "OCI layout's folder");
  }
  TRY_ASSIGN(options.source, client::SourceName::parse(source));

  if (given.keys == nullptr && given.key_count != 0) {
    return fail(null_argument("cubinary_options.keys"));
  }
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < given.key_count; ++i) {
    if (given.keys[i] == nullptr) {
      return fail(null_argument("a key in cubinary_options.keys"));
    }
    keys.emplace_back(given.keys[i]);
  }
  if (given.keys == nullptr) {
    if (auto named = text_or(nullptr, "CUBINARY_KEY"); !named.empty()) {
      keys.push_back(std::move(named));
    }
  }
  TRY_ASSIGN(options.trust.keys, client::load_keys(keys));
  options.trust.allow_unsigned = given.allow_unsigned != 0;
  options.trust.allow_expired = given.allow_expired != 0;

  options.cache = given.cache != nullptr ? std::filesystem::path(given.cache)
                                         : client::Cache::default_directory();
  options.token = client::trimmed_token(text_or(given.token, "CUBINARY_TOKEN"));
  if (!(given.timeout_seconds >= 0)) {
    return fail(ErrorCode::usage, "cubinary_options.timeout_seconds is negative");
  }
  if (given.timeout_seconds > 0) {
    options.timeout_seconds = given.timeout_seconds;
  }
  options.offline = given.offline != 0;
  if (given.log != nullptr) {
    options.log = [log = given.log, user = given.log_user](const std::string& message) {
      log(user, message.c_str());
    };
  } else {
    options.log = warn;
  }
  options.cache_limit = given.cache_limit;
  if (given.event != nullptr) {
    options.listener = [event = given.event, user = given.event_user](const client::Event& what) {
      const std::string name(what.name);
      cubinary_event value{};
      value.size = sizeof value;
      value.kind = static_cast<cubinary_event_kind>(what.kind);
      value.name = name.c_str();
      value.bytes = what.bytes;
      value.milliseconds = what.milliseconds;
      value.compile_seconds = what.compile_seconds;
      event(user, &value);
    };
  }
  if (given.device_class != nullptr && *given.device_class != '\0') {
    TRY_ASSIGN(options.device_class, core::DeviceClass::parse(given.device_class));
  }
  return options;
}

/// Name and value pairs into a map; a name twice is an error.
template <typename Map, typename Pair, typename Value>
Result<void> collect(const Pair* pairs, std::size_t count, const char* what, Map& map,
                     Value Pair::* value) {
  if (pairs == nullptr && count != 0) {
    return fail(null_argument(std::string("cubinary_query.") + what));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (pairs[i].name == nullptr) {
      return fail(null_argument(std::string("a name in cubinary_query.") + what));
    }
    if constexpr (std::is_pointer_v<Value>) {
      if (pairs[i].*value == nullptr) {
        return fail(null_argument(std::string("a value in cubinary_query.") + what));
      }
    }
    if (!map.emplace(pairs[i].name, pairs[i].*value).second) {
      return fail(ErrorCode::usage,
                  std::string("cubinary_query.") + what + " names " + pairs[i].name + " twice");
    }
  }
  return {};
}

Result<Session::Query> session_query(const cubinary_query& given) {
  Session::Query query;
  if (given.kernel == nullptr) {
    return fail(null_argument("cubinary_query.kernel"));
  }
  query.kernel = given.kernel;
  if (given.interface_digest == nullptr) {
    return fail(ErrorCode::usage,
                "cubinary_query.interface_digest is NULL: name the interface the caller was "
                "written for (cubinary explain shows it), or CUBINARY_ANY_INTERFACE");
  }
  if (std::string_view(given.interface_digest) != CUBINARY_ANY_INTERFACE) {
    auto digest = core::Digest::parse(given.interface_digest);
    if (!digest) {
      return fail(ErrorCode::usage, "cubinary_query.interface_digest: " + digest.error().message);
    }
    query.interface_digest = *digest;
  }
  TRY(collect(given.types, given.type_count, "types", query.types, &cubinary_type::dtype));
  TRY(collect(given.axes, given.axis_count, "axes", query.shape, &cubinary_value::value));
  TRY(collect(given.alignments, given.alignment_count, "alignments", query.alignments,
              &cubinary_value::value));
  for (const auto& [name, bytes] : query.alignments) {
    if (bytes <= 0 || (bytes & (bytes - 1)) != 0) {
      return fail(ErrorCode::usage, "cubinary_query.alignments: " + name + " = " +
                                        std::to_string(bytes) + " is no power of two");
    }
  }
  switch (static_cast<int>(given.require)) {
    case CUBINARY_MATCH_ANY:
      query.require = core::Match::fallback;
      break;
    case CUBINARY_MATCH_EXACT:
      query.require = core::Match::exact;
      break;
    case CUBINARY_MATCH_NEAREST_SHAPE:
      query.require = core::Match::nearest_shape;
      break;
    case CUBINARY_MATCH_OTHER_CLASS:
      query.require = core::Match::other_class;
      break;
    default:
      return fail(ErrorCode::usage, "cubinary_query.require is no cubinary_match");
  }
  return query;
}

constexpr const char* kind_name(core::ArgumentKind kind) {
  switch (kind) {
    case core::ArgumentKind::in:
      return "in";
    case core::ArgumentKind::out:
      return "out";
    case core::ArgumentKind::inout:
      return "inout";
    case core::ArgumentKind::scalar:
      return "scalar";
    case core::ArgumentKind::workspace:
      return "workspace";
    case core::ArgumentKind::bytes:
      return "bytes";
    case core::ArgumentKind::handle:
      return "handle";
  }
  return "";
}

}  // namespace

extern "C" {

cubinary_status cubinary_open(const cubinary_options* options, cubinary_context** context) {
  return guarded([&]() -> Result<void> {
    if (context == nullptr) {
      return fail(null_argument("context"));
    }
    *context = nullptr;
    TRY_ASSIGN(const cubinary_options given, copy_in(options, "cubinary_options"));
    TRY_ASSIGN(SessionOptions converted, session_options(given));
    TRY_ASSIGN(auto session, Session::open(std::move(converted)));
    *context = new cubinary_context{.session = std::move(session)};
    return {};
  });
}

void cubinary_close(cubinary_context* context) {
  (void)guarded([&]() -> Result<void> {
    // In a forked child it is left alone: its threads and CUDA contexts are the parent's.
    if (context != nullptr && context->generation == core::fork_generation()) {
      delete context;
    }
    return {};
  });
}

cubinary_status cubinary_prefetch(cubinary_context* context, const char* const* kernels,
                                  size_t count) {
  return guarded([&]() -> Result<void> {
    TRY(check_process(context, "context"));
    if (kernels == nullptr && count != 0) {
      return fail(null_argument("kernels"));
    }
    std::vector<std::string> globs;
    for (std::size_t i = 0; i < count; ++i) {
      if (kernels[i] == nullptr) {
        return fail(null_argument("a name in kernels"));
      }
      globs.emplace_back(kernels[i]);
    }
    context->session->prefetch(std::move(globs));
    return {};
  });
}

cubinary_status cubinary_prefetch_wait(cubinary_context* context) {
  return guarded([&]() -> Result<void> {
    TRY(check_process(context, "context"));
    return context->session->wait_for_prefetch();
  });
}

cubinary_status cubinary_get_stats(const cubinary_context* context, cubinary_stats* stats) {
  return guarded([&]() -> Result<void> {
    TRY(check_process(context, "context"));
    const client::Stats now = context->session->stats();
    cubinary_stats value{};
    value.cache_hits = now.cache_hits;
    value.cache_misses = now.cache_misses;
    value.cache_bytes = now.cache_bytes;
    value.packs_fetched = now.packs_fetched;
    value.fetched_bytes = now.fetched_bytes;
    value.loads = now.loads;
    value.loaded_bytes = now.loaded_bytes;
    value.damaged = now.damaged;
    value.fetch_milliseconds = now.fetch_milliseconds;
    value.load_milliseconds = now.load_milliseconds;
    value.compile_seconds_avoided = now.compile_seconds_avoided;
    return copy_out(value, stats, "cubinary_stats");
  });
}

cubinary_status cubinary_resolve(cubinary_context* context, const cubinary_query* query,
                                 cubinary_kernel** kernel) {
  return guarded([&]() -> Result<void> {
    if (kernel == nullptr) {
      return fail(null_argument("kernel"));
    }
    *kernel = nullptr;
    TRY(check_process(context, "context"));
    TRY_ASSIGN(const cubinary_query given, copy_in(query, "cubinary_query"));
    TRY_ASSIGN(const Session::Query converted, session_query(given));
    TRY_ASSIGN(auto resolved, context->session->resolve(converted));
    auto made = std::make_unique<cubinary_kernel>();
    const core::Choice& choice = resolved->choice();
    made->interface_digest = choice.table->interface.text();
    made->release = resolved->session().release().name();
    made->target = choice.target.text();
    made->device_class = resolved->device().text();
    made->config = core::to_display(choice.entry->config);
    made->match = core::match_name(choice.match);
    made->artifact = choice.entry->artifact.text();
    made->kernel = std::move(resolved);
    *kernel = made.release();
    return {};
  });
}

void cubinary_kernel_free(cubinary_kernel* kernel) {
  (void)guarded([&]() -> Result<void> {
    if (kernel != nullptr && kernel->generation == core::fork_generation()) {
      delete kernel;
    }
    return {};
  });
}

cubinary_status cubinary_prepare(cubinary_kernel* kernel) {
  return guarded([&]() -> Result<void> {
    TRY(check_process(kernel, "kernel"));
    return kernel->kernel->prepare();
  });
}

size_t cubinary_workspace_size(const cubinary_kernel* kernel) {
  return kernel == nullptr ? 0 : static_cast<size_t>(kernel->kernel->plan().workspace_bytes);
}

cubinary_status cubinary_launch(cubinary_kernel* kernel, const cubinary_arg* args, size_t n,
                                struct CUstream_st* stream) {
  return guarded([&]() -> Result<void> {
    TRY(check_process(kernel, "kernel"));
    if (args == nullptr && n != 0) {
      return fail(null_argument("args"));
    }
    // The two are one layout, asserted above; copying would cost what a launch must not.
    return kernel->kernel->launch({reinterpret_cast<const ArgumentValue*>(args), n}, stream);
  });
}

cubinary_status cubinary_kernel_get_info(const cubinary_kernel* kernel,
                                         cubinary_kernel_info* info) {
  return guarded([&]() -> Result<void> {
    if (kernel == nullptr) {
      return fail(null_argument("kernel"));
    }
    const core::Choice& choice = kernel->kernel->choice();
    cubinary_kernel_info value{};
    value.name = choice.table->name.c_str();
    value.interface_digest = kernel->interface_digest.c_str();
    value.release = kernel->release.c_str();
    value.target = kernel->target.c_str();
    value.device_class = kernel->device_class.c_str();
    value.tuned_on = choice.entry->device_class.c_str();
    value.config = kernel->config.c_str();
    value.match = kernel->match.c_str();
    value.how = choice.how.c_str();
    value.artifact = kernel->artifact.c_str();
    value.time_us = choice.entry->time_us.value_or(0.0);
    value.argument_count = kernel->kernel->plan().arguments.size();
    value.workspace_size = cubinary_workspace_size(kernel);
    return copy_out(value, info, "cubinary_kernel_info");
  });
}

cubinary_status cubinary_kernel_get_argument(const cubinary_kernel* kernel, size_t index,
                                             cubinary_argument_info* info) {
  return guarded([&]() -> Result<void> {
    if (kernel == nullptr) {
      return fail(null_argument("kernel"));
    }
    const auto& arguments = kernel->kernel->plan().arguments;
    if (index >= arguments.size()) {
      return fail(ErrorCode::usage, "argument " + std::to_string(index) + " of kernel " +
                                        kernel->kernel->choice().table->name + ": it has " +
                                        std::to_string(arguments.size()));
    }
    const core::CallerArgument& argument = arguments[index];
    cubinary_argument_info value{};
    value.name = argument.name.c_str();
    value.kind = kind_name(argument.kind);
    value.dtype = argument.dtype.c_str();
    value.value_size = argument.size;
    value.buffer_bytes = argument.buffer_bytes;
    value.alignment = argument.alignment;
    value.nullable = argument.nullable ? 1 : 0;
    value.has_default = argument.default_value ? 1 : 0;
    return copy_out(value, info, "cubinary_argument_info");
  });
}

const char* cubinary_error_message(const cubinary_context*) {
  return g_message.c_str();
}

const char* cubinary_status_name(cubinary_status status) {
  if (status == CUBINARY_OK) {
    return "ok";
  }
  const auto table = core::error_table();
  const auto at = static_cast<std::size_t>(status);
  // Names are literals, so the view's end is a zero.
  return at >= 1 && at <= table.size() ? table[at - 1].name.data() : "unknown";
}

const char* cubinary_version(void) {
  return CUBINARY_VERSION;
}

}  // extern "C"
