// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http.hpp"
#include "server/router.hpp"

namespace cubinary::server {

/// Bounds the request bodies that are in memory at once. Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(std::uint64_t bytes) : m_left(static_cast<std::int64_t>(bytes)) {}

  /// A part of the budget, given back when destroyed.
  class Share {
   public:
    Share() = default;
    Share(BodyBudget& budget, std::uint64_t bytes) : m_budget(&budget), m_bytes(bytes) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    Share(Share&& other) noexcept
        : m_budget(std::exchange(other.m_budget, nullptr)), m_bytes(other.m_bytes) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(m_budget, other.m_budget);
      std::swap(m_bytes, other.m_bytes);
      return *this;
    }
    ~Share() {
      if (m_budget != nullptr) {
        m_budget->m_left.fetch_add(static_cast<std::int64_t>(m_bytes));
      }
    }
    explicit operator bool() const { return m_budget != nullptr; }

   private:
    BodyBudget* m_budget = nullptr;
    std::uint64_t m_bytes = 0;
  };
  /// Empty when there is no room now.
  [[nodiscard]] Share take(std::uint64_t bytes) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (m_left.fetch_sub(wanted) < wanted) {
      m_left.fetch_add(wanted);
      return {};
    }
    return {*this, bytes};
  }

 private:
  std::atomic<std::int64_t> m_left;
};

/// A request between its admitted head and its answer.
struct PendingRequest {
  Request request;
  RouteMatch match;    ///< points into request.path
  std::string target;  ///< as sent, for the log
  bool close = false;
  BodyBudget::Share share;  ///< of its body
};

}  // namespace cubinary::server
