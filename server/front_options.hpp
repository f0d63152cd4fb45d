// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "server/request_head.hpp"

namespace cubinary::server {

struct FrontOptions {
  std::size_t loops = 0;     ///< threads that wait for connections; 0: one a processor
  std::size_t workers = 64;  ///< answering threads
  std::size_t max_connections = 4096;
  std::size_t max_per_peer = 0;  ///< connections of one address (IPv6: one /64); 0: any number
  std::chrono::milliseconds head_time{
      10'000};  ///< from the first byte, or the accept, to a whole head
  std::chrono::milliseconds idle_time{30'000};  ///< between two requests
  HeadLimits head;
};

}  // namespace cubinary::server
