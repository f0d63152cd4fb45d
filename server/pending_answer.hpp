// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "server/connection.hpp"
#include "server/router.hpp"

namespace cubinary::server {

/// An answer from memory that the client did not take at once, and what the log will say of it.
struct PendingAnswer {
  std::shared_ptr<const CachedBlob> blob;
  std::string head;
  Outgoing rest;  ///< of the two
  std::string method;
  std::string target;
  std::string forwarded_for;
  Route route = Route::unknown;
  Clock::time_point begin;
  bool close = false;
};

}  // namespace cubinary::server
