// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/compile_task.hpp"

#include <algorithm>
#include <set>

#include "builder/compile/compiler_log.hpp"
#include "builder/inspect/inspect.hpp"
#include "builder/inspect/match_entry.hpp"
#include "core/base/file.hpp"

namespace cubinary::builder {

using core::Backend;
using core::ErrorCode;
using core::fail;
using core::Result;
using store::CandidateStatus;

namespace {

constexpr std::uint64_t k_max_source_bytes = 64U << 20U;

/// NVRTC refuses a byte order mark that nvcc takes.
void drop_byte_order_mark(std::string& text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.erase(0, 3);
  }
}

std::vector<std::string> unique_entries(const std::vector<std::string>& entries) {
  std::vector<std::string> unique;
  for (const std::string& entry : entries) {
    if (std::find(unique.begin(), unique.end(), entry) == unique.end()) {
      unique.push_back(entry);
    }
  }
  return unique;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > 8 ? text + ", …" : text;
}

Result<std::string> find_symbol(const CubinInfo& info, const std::vector<std::string>& all,
                                const std::string& entry, const std::string& told) {
  std::string symbol = told.empty() ? match_entry(entry, all).value_or("") : told;
  if (!symbol.empty() && info.find(symbol) != nullptr) {
    return symbol;
  }
  return fail(ErrorCode::bad_cubin,
              all.empty() ? "the cubin has no entry at all: is the source empty for this target "
                            "(#if __CUDA_ARCH__)?"
                          : "the cubin has no entry for `" + entry + "`; it has " + listed(all));
}

Result<void> read_cubin(const PlannedCandidate& planned, const CompileReply& reply,
                        store::Candidate& candidate) {
  TRY_ASSIGN(const core::Target target, core::Target::parse(planned.target));
  TRY_ASSIGN(const CubinInfo info, inspect_cubin(reply.cubin, target));
  std::vector<std::string> all;
  for (const CubinEntry& entry : info.entries) {
    all.push_back(entry.symbol);
  }
  const std::vector<std::string> asked = unique_entries(planned.special.entries);
  const auto spills = spills_from_log(reply.log);
  std::set<std::string> wanted;
  for (const std::string& name : planned.special.entries) {
    const auto at =
        static_cast<std::size_t>(std::find(asked.begin(), asked.end(), name) - asked.begin());
    TRY_ASSIGN(const std::string symbol,
               find_symbol(info, all, name, at < reply.symbols.size() ? reply.symbols[at] : ""));
    const CubinEntry& entry = *info.find(symbol);
    if (entry.hollow) {
      return fail(ErrorCode::bad_cubin, "`" + name + "` does nothing when compiled for " +
                                            info.target +
                                            ": is its body empty there (#if __CUDA_ARCH__)?");
    }
    const auto spilled = spills.find(symbol);
    candidate.symbols.push_back({symbol, entry.max_threads, entry.registers, entry.static_smem,
                                 spilled == spills.end() ? 0 : spilled->second});
    wanted.insert(symbol);
  }
  for (const std::string& symbol : all) {
    if (!wanted.contains(symbol)) {
      candidate.extra_entries.push_back(symbol);
    }
  }
  return {};
}

}  // namespace

Result<CompileJob> make_job(const PlannedKernel& kernel, const PlannedCandidate& candidate) {
  const core::Manifest& manifest = kernel.manifest;
  const std::vector<std::string> sources = sources_of(manifest, candidate.variant.role);
  CompileJob job;
  job.backend = manifest.backend;
  job.compiler =
      (manifest.backend == Backend::nvrtc ? kernel.toolkit.nvrtc : kernel.toolkit.nvcc).string();
  const std::filesystem::path folder = manifest.path.parent_path();
  job.folder = std::filesystem::absolute(folder.empty() ? "." : folder).string();
  if (sources.size() == 1 && manifest.backend == Backend::nvrtc) {
    job.main_name = sources.front();
    TRY_ASSIGN(job.main_source, core::read_text_file(folder / sources.front(), k_max_source_bytes));
    drop_byte_order_mark(job.main_source);
  } else {
    job.main_name = "unit.cu";
    for (const std::string& source : sources) {
      job.main_source += "#include \"" + source + "\"\n";
    }
  }
  job.entries = unique_entries(candidate.special.entries);
  job.options = compile_options(candidate.special, candidate.target);
  // Relative, so that __FILE__ and assert never see where the checkout is.
  job.options.emplace_back("-I.");
  for (const std::string& source : sources) {
    const std::string beside = std::filesystem::path(source).parent_path().generic_string();
    if (!beside.empty()) {
      job.options.push_back("-I" + beside);
    }
  }
  for (const std::string& include : manifest.includes) {
    job.options.push_back("-I" + include);
  }
  for (const std::filesystem::path& include : kernel.toolkit.includes) {
    job.options.push_back("-I" + include.string());
  }
  constexpr std::size_t k_seed_digits = 8;
  job.seed = candidate.code.hex().substr(0, k_seed_digits);
  return job;
}

store::Kernel kernel_row(const PlannedKernel& kernel) {
  store::Kernel row;
  row.name = kernel.manifest.name;
  row.interface = core::interface_digest(kernel.manifest);
  row.manifest = kernel.manifest.text;
  row.manifest_digest = core::sha256(kernel.manifest.text);
  row.manifest_path = kernel.manifest.path.string();
  return row;
}

store::Candidate candidate_of(const PlannedKernel& kernel, const PlannedCandidate& planned) {
  store::Candidate candidate;
  candidate.kernel = kernel.manifest.name;
  candidate.role = planned.variant.role;
  candidate.build_key = planned.key;
  candidate.types = planned.variant.types;
  candidate.compile_axes = planned.variant.compile_axes;
  candidate.config = planned.variant.config;
  candidate.target = planned.target;
  candidate.toolchain = kernel.toolchain;
  return candidate;
}

Result<void> check_unchanged(const Plan& plan, std::span<const std::size_t> compiled,
                             std::string_view what) {
  std::set<std::pair<std::size_t, store::CandidateRole>> checked;
  for (const std::size_t index : compiled) {
    const PlannedCandidate& planned = plan.candidates[index];
    if (!checked.emplace(planned.kernel, planned.variant.role).second) {
      continue;
    }
    const PlannedKernel& kernel = plan.kernels[planned.kernel];
    if (const auto path = changed_since(kernel.inputs.at(planned.variant.role))) {
      return fail(ErrorCode::io, path->string() +
                                     " changed while it was compiled; what came of it was not "
                                     "kept: run " +
                                     std::string(what) + " again");
    }
  }
  return {};
}

Result<std::vector<store::Candidate>> put_result(store::Writer& writer, const Plan& plan,
                                                 const TaskResult& result,
                                                 std::span<const std::size_t> members) {
  if (result.artifact) {
    TRY(store::put_artifact(writer, *result.artifact));
  }
  std::vector<store::Candidate> put;
  for (const std::size_t index : members) {
    const PlannedCandidate& planned = plan.candidates[index];
    store::Candidate candidate = result.candidate;
    candidate.kernel = plan.kernels[planned.kernel].manifest.name;
    candidate.build_key = planned.key;
    candidate.role = planned.variant.role;
    candidate.types = planned.variant.types;
    candidate.compile_axes = planned.variant.compile_axes;
    candidate.config = planned.variant.config;
    TRY_ASSIGN(candidate.id, store::put_candidate(writer, candidate));
    if (result.artifact) {
      candidate.raw_size = result.artifact->size;
      candidate.stored_size = result.artifact->stored.size();
    }
    put.push_back(std::move(candidate));
  }
  return put;
}

void judge_reply(const PlannedCandidate& planned, const CompileReply& reply,
                 store::Candidate& candidate) {
  candidate.cpu_ms = reply.cpu_ms;
  candidate.log = log_to_keep(reply.log);
  candidate.status = CandidateStatus::failed;
  if (reply.status != CompileReply::Status::ok) {
    candidate.message = reply.message;
    return;
  }
  if (const auto read = read_cubin(planned, reply, candidate); !read) {
    candidate.message = read.error().message;
    candidate.symbols.clear();
    candidate.extra_entries.clear();
    return;
  }
  candidate.status = CandidateStatus::ok;
}

TaskRunner::TaskRunner(const WorkerOptions& options, std::chrono::milliseconds limit, int stop)
    : m_options(options), m_limit(limit), m_stop(stop) {
}

Result<std::optional<TaskResult>> TaskRunner::run(const PlannedKernel& kernel,
                                                  const PlannedCandidate& planned,
                                                  const store::Dictionary* dictionary,
                                                  HeaderUse header_use) {
  using Outcome = Worker::Answer::Outcome;
  TaskResult result;
  result.candidate = candidate_of(kernel, planned);
  TRY_ASSIGN(CompileJob job, make_job(kernel, planned));
  job.header_use = header_use;
  // A crash may be an earlier candidate's doing: it is believed only of a fresh worker.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!m_worker) {
      TRY_ASSIGN(m_worker, Worker::start(m_options));
    }
    const auto began = std::chrono::steady_clock::now();
    const Worker::Answer answer = m_worker->run(job, m_limit, m_stop);
    result.candidate.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (answer.outcome != Outcome::replied) {
      m_worker.reset();
    }
    if (answer.outcome == Outcome::stopped) {
      return std::nullopt;
    }
    if (answer.outcome == Outcome::replied) {
      if (answer.reply.status == CompileReply::Status::environment) {
        return fail(ErrorCode::environment, answer.reply.message);
      }
      judge_reply(planned, answer.reply, result.candidate);
      if (result.candidate.status == CandidateStatus::ok) {
        TRY_ASSIGN(result.artifact, store::prepare_artifact(answer.reply.cubin, dictionary));
        result.candidate.artifact = result.artifact->digest;
      }
      return result;
    }
    result.candidate.message = answer.message;
    if (answer.outcome == Outcome::timed_out) {
      result.candidate.status = CandidateStatus::timeout;
      return result;
    }
    ++result.crashes;
    result.candidate.status = CandidateStatus::crashed;
    job.header_use = HeaderUse::few;  // nor may the headers it made be to blame
  }
  return result;
}

}  // namespace cubinary::builder
