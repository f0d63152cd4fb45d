// SPDX-License-Identifier: Apache-2.0
// make_store FILE: a store of one kernel with eight candidates, of which six are current.
#include <exception>
#include <iostream>

#include "tests/store/scratch.hpp"

int main(int argc, char** argv) {
  using namespace cubinary::store;
  if (argc != 2) {
    return 2;
  }
  try {
    Store store = open_new(argv[1]);
    std::vector<CandidateId> ids;
    for (unsigned i = 0; i < 8; ++i) {
      ids.push_back(put_made_up(store, "rmsnorm", i));
    }
    ids.resize(6);
    must(store.write([&](Writer& writer) { return set_current(writer, "rmsnorm", "sm_90", ids); }));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
