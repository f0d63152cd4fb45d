// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/compile_task.hpp"

#include <algorithm>
#include <set>
#include <utility>

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

/// Holds the cubin against what was asked for; the entries, one a step.
Result<std::vector<CubinEntry>> read_cubin(const PlannedCandidate& planned,
                                           const CompileReply& reply, store::Candidate& candidate) {
  TRY_ASSIGN(const core::Target target, core::Target::parse(planned.target));
  TRY_ASSIGN(const CubinInfo info, inspect_cubin(reply.cubin, target));
  const std::vector<std::string>& names = planned.special.entries;
  const std::vector<std::string> asked = unique_entries(names);
  std::vector<std::string> told;
  for (const std::string& name : names) {
    const auto at =
        static_cast<std::size_t>(std::find(asked.begin(), asked.end(), name) - asked.begin());
    told.push_back(at < reply.symbols.size() ? reply.symbols[at] : "");
  }
  TRY_ASSIGN(FoundEntries found, find_entries(info, names, told));
  const auto spills = spills_from_log(reply.log);
  std::vector<CubinEntry> entries;
  for (const CubinEntry* const entry : found.entries) {
    const auto spilled = spills.find(entry->symbol);
    candidate.symbols.push_back({entry->symbol, entry->max_threads, entry->registers,
                                 entry->static_smem,
                                 spilled == spills.end() ? 0 : spilled->second});
    entries.push_back(*entry);
  }
  candidate.extra_entries = std::move(found.extra);
  return entries;
}

/// Fills in status, message, symbols and log from a compiler's reply, after inspecting the cubin. A
/// cubin that is not right makes the candidate failed.
void judge_reply(const PlannedCandidate& planned, const CompileReply& reply, TaskResult& result) {
  store::Candidate& candidate = result.candidate;
  candidate.cpu_ms = reply.cpu_ms;
  candidate.log = log_to_keep(reply.log);
  candidate.status = CandidateStatus::failed;
  if (reply.status != CompileReply::Status::ok) {
    candidate.message = reply.message;
    return;
  }
  auto read = read_cubin(planned, reply, candidate);
  if (!read) {
    candidate.message = read.error().message;
    return;
  }
  result.entries = std::move(*read);
  candidate.status = CandidateStatus::ok;
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
  std::vector<const CubinEntry*> entries;
  for (const CubinEntry& entry : result.entries) {
    entries.push_back(&entry);
  }
  bool artifact_put = false;
  std::vector<store::Candidate> put;
  for (const std::size_t index : members) {
    const PlannedCandidate& planned = plan.candidates[index];
    const PlannedKernel& kernel = plan.kernels[planned.kernel];
    store::Candidate candidate = result.candidate;
    if (candidate.status == CandidateStatus::ok) {
      const Result<void> judged =
          kernel.gates.at(planned.target).judge(planned.variant, entries, planned.special.entries);
      if (!judged) {
        candidate.status = CandidateStatus::failed;
        candidate.message = judged.error().message;
        candidate.artifact.reset();
        candidate.symbols.clear();
        candidate.extra_entries.clear();
      } else if (!std::exchange(artifact_put, true)) {
        TRY(store::put_artifact(writer, *result.artifact));
      }
    }
    candidate.kernel = kernel.manifest.name;
    candidate.build_key = planned.key;
    candidate.role = planned.variant.role;
    candidate.types = planned.variant.types;
    candidate.compile_axes = planned.variant.compile_axes;
    candidate.config = planned.variant.config;
    TRY_ASSIGN(candidate.id, store::put_candidate(writer, candidate));
    if (candidate.artifact) {
      candidate.raw_size = result.artifact->size;
      candidate.stored_size = result.artifact->stored.size();
    }
    put.push_back(std::move(candidate));
  }
  return put;
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
      judge_reply(planned, answer.reply, result);
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
