// SPDX-License-Identifier: Apache-2.0
// The C++ wrapper of cubinary.h: handles that free themselves, errors as exceptions. Header only,
// C++11; it adds no rules of its own: cubinary.h documents every call.
#ifndef CUBINARY_HPP
#define CUBINARY_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cubinary.h"

namespace cubinary {

/// A failed call: what() is the message, status() its kind.
class error : public std::runtime_error {
 public:
  error(cubinary_status status, const std::string& message)
      : std::runtime_error(message), m_status(status) {}
  cubinary_status status() const noexcept { return m_status; }

 private:
  cubinary_status m_status;
};

inline void check(cubinary_status status) {
  if (status != CUBINARY_OK) {
    throw error(status, cubinary_error_message(nullptr));
  }
}

struct query {
  std::string kernel;
  std::string interface_digest;
  std::map<std::string, std::string> types;
  std::map<std::string, std::int64_t> axes;
  std::map<std::string, std::int64_t> alignments;
  cubinary_match require = CUBINARY_MATCH_ANY;
};

/// One kernel, resolved for one shape and device.
class kernel {
 public:
  explicit kernel(cubinary_kernel* handle) : m_handle(handle) {}

  void prepare() { check(cubinary_prepare(m_handle.get())); }
  std::size_t workspace_size() const { return cubinary_workspace_size(m_handle.get()); }

  /// Arguments by value, in the kernel's order; `nullptr` for a default or a null pointer. When
  /// workspace_size() is not 0, the workspace pointer comes last.
  template <typename... Args>
  void launch(CUstream_st* stream, const Args&... args) {
    const cubinary_arg values[sizeof...(Args) + 1] = {argument(args)..., cubinary_arg{nullptr, 0}};
    check(cubinary_launch(m_handle.get(), values, sizeof...(Args), stream));
  }

  cubinary_kernel_info info() const {
    cubinary_kernel_info result = CUBINARY_INIT(cubinary_kernel_info);
    check(cubinary_kernel_get_info(m_handle.get(), &result));
    return result;
  }
  cubinary_argument_info argument_info(std::size_t index) const {
    cubinary_argument_info result = CUBINARY_INIT(cubinary_argument_info);
    check(cubinary_kernel_get_argument(m_handle.get(), index, &result));
    return result;
  }
  cubinary_kernel* get() const noexcept { return m_handle.get(); }

 private:
  template <typename T>
  static cubinary_arg argument(const T& value) {
    return cubinary_arg{&value, sizeof value};
  }
  static cubinary_arg argument(std::nullptr_t) { return cubinary_arg{nullptr, 0}; }

  struct deleter {
    void operator()(cubinary_kernel* handle) const { cubinary_kernel_free(handle); }
  };
  std::unique_ptr<cubinary_kernel, deleter> m_handle;
};

/// An opened, verified release.
class context {
 public:
  explicit context(const cubinary_options& options) {
    cubinary_context* handle = nullptr;
    check(cubinary_open(&options, &handle));
    m_handle.reset(handle);
  }
  /// `key` is a public key's file or PEM text; other options at their defaults.
  context(const std::string& source, const std::string& key) {
    const char* keys[] = {key.c_str()};
    cubinary_options options = CUBINARY_INIT(cubinary_options);
    options.source = source.c_str();
    options.keys = keys;
    options.key_count = 1;
    cubinary_context* handle = nullptr;
    check(cubinary_open(&options, &handle));
    m_handle.reset(handle);
  }

  kernel resolve(const query& wanted) {
    std::vector<cubinary_type> types;
    for (const auto& item : wanted.types) {
      types.push_back(cubinary_type{item.first.c_str(), item.second.c_str()});
    }
    const std::vector<cubinary_value> axes = values(wanted.axes);
    const std::vector<cubinary_value> alignments = values(wanted.alignments);
    cubinary_query given = CUBINARY_INIT(cubinary_query);
    given.kernel = wanted.kernel.c_str();
    given.interface_digest = wanted.interface_digest.c_str();
    given.types = types.data();
    given.type_count = types.size();
    given.axes = axes.data();
    given.axis_count = axes.size();
    given.alignments = alignments.data();
    given.alignment_count = alignments.size();
    given.require = wanted.require;
    cubinary_kernel* handle = nullptr;
    check(cubinary_resolve(m_handle.get(), &given, &handle));
    return kernel(handle);
  }

  /// Fetches in the background: the kernels that match one of the globs, or all.
  void prefetch(const std::vector<std::string>& kernels = {}) {
    std::vector<const char*> names;
    for (const auto& kernel : kernels) {
      names.push_back(kernel.c_str());
    }
    check(cubinary_prefetch(m_handle.get(), names.data(), names.size()));
  }
  void prefetch_wait() { check(cubinary_prefetch_wait(m_handle.get())); }
  cubinary_stats stats() const {
    cubinary_stats result = CUBINARY_INIT(cubinary_stats);
    check(cubinary_get_stats(m_handle.get(), &result));
    return result;
  }
  cubinary_context* get() const noexcept { return m_handle.get(); }

 private:
  static std::vector<cubinary_value> values(const std::map<std::string, std::int64_t>& map) {
    std::vector<cubinary_value> result;
    for (const auto& item : map) {
      result.push_back(cubinary_value{item.first.c_str(), item.second});
    }
    return result;
  }
  struct deleter {
    void operator()(cubinary_context* handle) const { cubinary_close(handle); }
  };
  std::unique_ptr<cubinary_context, deleter> m_handle;
};

}  // namespace cubinary

#endif  // CUBINARY_HPP
