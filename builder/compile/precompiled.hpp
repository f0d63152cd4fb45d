// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "builder/compile/compile_job.hpp"

namespace cubinary::builder {

/// Precompiled headers of one worker process. NVRTC's cannot be shared: under address randomisation
/// another process cannot map them (it only warns), and two that write one folder race. So a worker
/// keeps its own, in a private folder, for the last few sets of headers that several jobs share:
/// a light kernel's front end costs more than its optimiser. The code that comes out is the same,
/// byte for byte. One thread.
class PrecompiledHeaders {
 public:
  PrecompiledHeaders() = default;
  PrecompiledHeaders(const PrecompiledHeaders&) = delete;
  PrecompiledHeaders& operator=(const PrecompiledHeaders&) = delete;
  ~PrecompiledHeaders();

  /// NVRTC options that use the headers of `job`, or make them where its `header_use` says that
  /// they will pay. None where a folder cannot be made, or has little room.
  [[nodiscard]] std::vector<std::string> options_for(const CompileJob& job);

  /// Removes what workers that were killed left behind.
  static void sweep();

  /// NVRTC's remarks about precompiled headers taken out of its log: they name temporary files.
  [[nodiscard]] static std::string without_remarks(const std::string& log);

 private:
  struct Seen {
    std::string key;               ///< what the headers depend on
    std::filesystem::path folder;  ///< empty: seen once, nothing made
  };
  void forget_oldest();

  std::list<Seen> m_seen;        ///< the last used first
  std::filesystem::path m_root;  ///< made with the first folder
  bool m_unusable = false;
  unsigned m_count = 0;
};

}  // namespace cubinary::builder
