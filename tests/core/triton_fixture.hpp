// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/wire/triton_catalogue.hpp"

namespace cubinary::core::test {

/// Two kernels that share a file, a module with its source and one without, results of one GPU; for
/// sm_90, release `r1`. What the golden Triton catalogue holds.
inline TritonCatalogue sample_triton_catalogue() {
  const TritonOrigin origin{"3.6.0", "cp312", "x86_64"};
  const Digest cubin = sha256("cubin");
  const Digest other = sha256("other cubin");
  const Digest metadata = sha256("metadata");
  const Digest module = sha256("module");
  const Digest result = sha256("result");
  TritonCatalogue catalogue{"r1", Target::parse("sm_90").value(), {}, {}, {}, {}};
  catalogue.kernels = {{"BBB",
                        "add_kernel",
                        origin,
                        "__grp__add_kernel.json",
                        {{"add_kernel.cubin", other}, {"add_kernel.json", metadata}},
                        {}},
                       {"AAA",
                        "add_kernel",
                        origin,
                        "__grp__add_kernel.json",
                        {{"add_kernel.cubin", cubin}, {"add_kernel.json", metadata}},
                        {{"ptxas", "12.8.93"}, {"option.num_warps", "4"}}}};
  catalogue.host = {{sha256("int utils;").hex(),
                     "cuda_utils",
                     "cuda_utils.so",
                     module,
                     {"HOST1", "HOST2"},
                     "2.14",
                     origin},
                    {"",
                     "__triton_launcher",
                     "__triton_launcher.so",
                     module,
                     {"HOST3"},
                     "",
                     {"3.6.0", "", "x86_64"}}};
  catalogue.autotune = {
      {"sm90-s132-l50M-b6144-m144G", "TUNED", {{"mm.autotune.json", result}}, origin}};
  catalogue.packs = {{sha256("pack 1"), 10, 13, {{module, 7}, {result, 6}}},
                     {sha256("pack 2"), 20, 24, {{cubin, 5}, {other, 11}, {metadata, 8}}}};
  return catalogue;
}

}  // namespace cubinary::core::test
