// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/blob_cache.hpp"
#include "server/router.hpp"

namespace cubinary::server {

/// Whole answers by request target, ready to be sent: what a digest names never changes. A short
/// cut around routing and the blob cache's lock, one a loop, used by its thread alone.
class HotAnswers {
 public:
  struct Answer {
    std::string head_rest;  ///< of the answer's head, what follows its date, without the last line
    std::shared_ptr<const CachedBlob> blob;
    Route route = Route::unknown;
  };

  /// Null when there is none, or the blob cache has let go of its blob.
  [[nodiscard]] const Answer* find(std::string_view target) {
    const auto found = m_answers.find(target);
    if (found == m_answers.end() || found->second.blob->forgotten()) {
      return nullptr;
    }
    found->second.blob->mark_used();
    return &found->second;
  }
  /// Keeps an answer; the pointer holds until the next call of anything but `find`.
  const Answer* keep(std::string_view target, Answer answer) {
    if (m_answers.size() >= k_max_answers) {
      m_answers.clear();
    }
    return &m_answers.insert_or_assign(std::string(target), std::move(answer)).first->second;
  }
  /// Lets go of what the blob cache has let go of.
  void prune() {
    std::erase_if(m_answers, [](const auto& one) { return one.second.blob->forgotten(); });
  }

 private:
  static constexpr std::size_t k_max_answers = 4096;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, Answer, Hash, std::equal_to<>> m_answers;
};

}  // namespace cubinary::server
