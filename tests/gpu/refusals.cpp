// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/suite.hpp"

namespace cubinary::gpu {

namespace {

void expect(Suite& suite, const std::string& what, cubinary_status got, cubinary_status wanted) {
  suite.report.checked(what + " is " + cubinary_status_name(wanted), got == wanted,
                       got == CUBINARY_OK ? "it was accepted" : failure("got", got));
}

}  // namespace

void check_refusals(Suite& suite, const Release& release) {
  const Problem problem = rmsnorm_problem("f16", 8, 256, {}, suite.random);
  const std::string interface = suite.interface_of("rmsnorm");
  const Operands aligned(problem, {});
  const NamedValues alignments = aligned.alignments();
  const auto resolve = [&](const std::string& kernel, const std::string& digest,
                           const std::string& dtype, const NamedValues& axes) {
    Kernel handle;
    return handle.resolve(release, kernel, digest, dtype, axes, alignments);
  };
  expect(suite, "an unknown kernel", resolve("rmsnrom", interface, "f16", problem.axes),
         CUBINARY_ERROR_NOT_FOUND);
  expect(suite, "another interface",
         resolve("rmsnorm", suite.interface_of("gemm_nt"), "f16", problem.axes),
         CUBINARY_ERROR_INTERFACE_MISMATCH);
  expect(suite, "a missing axis", resolve("rmsnorm", interface, "f16", {{"rows", 8}}),
         CUBINARY_ERROR_USAGE);
  expect(suite, "a type the release lacks", resolve("rmsnorm", interface, "f64", problem.axes),
         CUBINARY_ERROR_NO_MATCH);

  Kernel kernel;
  if (const auto status =
          kernel.resolve(release, "rmsnorm", interface, "f16", problem.axes, alignments);
      status != CUBINARY_OK || cubinary_prepare(kernel.get()) != CUBINARY_OK) {
    suite.report.checked("rmsnorm f16 8 x 256", false, failure("resolve and prepare", status));
    return;
  }
  const auto launch = [&](const std::vector<cubinary_arg>& arguments) {
    return cubinary_launch(kernel.get(), arguments.data(), arguments.size(), nullptr);
  };
  const Operands shifted(problem, {1, true});
  expect(suite, "a pointer less aligned than promised", launch(shifted.arguments()),
         CUBINARY_ERROR_USAGE);
  auto arguments = aligned.arguments();
  arguments.pop_back();
  expect(suite, "a missing argument", launch(arguments), CUBINARY_ERROR_USAGE);
  const DevicePointer null = 0;
  arguments = aligned.arguments();
  arguments[1] = CUBINARY_ARG(null);
  expect(suite, "a null pointer", launch(arguments), CUBINARY_ERROR_USAGE);
  driver().check(driver().context_synchronize(), "cuCtxSynchronize");
}

}  // namespace cubinary::gpu
