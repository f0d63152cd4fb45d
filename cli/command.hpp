// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "core/base/result.hpp"

namespace cubinary::cli {

/// The program's command line while it is being described and parsed.
///
/// A subcommand's `add_` function describes itself on `app`; its CLI11 callback stores in `run`
/// what to do. `run` returns the exit status of an answer (0 done, 1 the answer is no or some work
/// failed), or an Error, which main prints as one line and maps to the status of the error table.
struct Cli {
  CLI::App& app;
  std::function<core::Result<int>()> run;
};

void add_build(Cli& cli);
void add_expand(Cli& cli);
void add_release(Cli& cli);
void add_keygen(Cli& cli);
void add_export(Cli& cli);
void add_verify(Cli& cli);
void add_serve(Cli& cli);
void add_fetch(Cli& cli);
void add_audit(Cli& cli);
void add_explain(Cli& cli);
void add_doctor(Cli& cli);
void add_store(Cli& cli);
void add_token(Cli& cli);
void add_triton(Cli& cli);
void add_tune(Cli& cli);
void add_worker(Cli& cli);  ///< hidden: the worker processes

}  // namespace cubinary::cli
