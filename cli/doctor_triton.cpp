// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gnu/libc-version.h>
#include <unistd.h>

#include "cli/answer.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/python_folder.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using State = Finding::State;

/// Prints facts of the Python that Triton programs here would run in. Nothing of Triton is
/// imported: that alone may start compilers.
constexpr const char* k_probe =
    "import importlib.metadata as m, json, os, sys, sysconfig\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except Exception: return ''\n"
    "inc = sysconfig.get_paths()['include']\n"
    "print(json.dumps({'python': sys.version.split()[0], 'abi': sysconfig.get_config_var('SOABI') "
    "or '',"
    " 'include': inc, 'header': os.path.exists(os.path.join(inc, 'Python.h')),"
    " 'triton': v('triton'), 'torch': v('torch'), 'fla': v('flash-linear-attention') or "
    "v('fla-core')}))";

struct Python {
  std::string version;
  std::string abi;
  std::string include;
  bool header = false;
  std::string triton;
  std::string torch;
  std::string fla;
};

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// First program of these names on the PATH.
fs::path find_program(std::initializer_list<std::string> names) {
  std::istringstream folders(from_environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const std::string& name : names) {
      const fs::path path = fs::path(folder) / name;
      std::error_code ignored;
      if (!folder.empty() && ::access(path.c_str(), X_OK) == 0 &&
          fs::is_regular_file(path, ignored)) {
        return path;
      }
    }
  }
  return {};
}

struct Answer {
  std::string text;  ///< first line
  int status = 0;
};

core::Result<Answer> run_python(const fs::path& python, const std::string& environment,
                                const std::string& arguments) {
  const std::string command =
      environment + " '" + python.string() + "' " + arguments + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return core::fail(core::ErrorCode::environment, "it cannot be started");
  }
  std::string text;
  std::array<char, 512> piece{};
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) {
    text += piece.data();
  }
  const int status = ::pclose(pipe);
  return Answer{text.substr(0, text.find('\n')), status};
}

core::Result<Python> ask(const fs::path& python) {
  // The probe holds no double quote and nothing a shell would expand in double quotes.
  TRY_ASSIGN(const Answer answer, run_python(python, "", "-c \"" + std::string(k_probe) + "\""));
  if (answer.status != 0) {
    return core::fail(core::ErrorCode::environment, "it does not run a program");
  }
  TRY_ASSIGN(const json::Value value, json::parse(answer.text));
  const json::Node top(value, "its answer");
  Python facts;
  TRY_ASSIGN(facts.version, top.text("python"));
  TRY_ASSIGN(facts.abi, top.text("abi"));
  TRY_ASSIGN(facts.include, top.text("include"));
  TRY_ASSIGN(facts.header, top.boolean_or("header", false));
  TRY_ASSIGN(facts.triton, top.text("triton"));
  TRY_ASSIGN(facts.torch, top.text("torch"));
  TRY_ASSIGN(facts.fla, top.text("fla"));
  return facts;
}

/// What the release holds of Triton for a device here; "" when nothing.
std::string triton_in(client::Release* release, const Machine& machine) {
  if (release == nullptr) {
    return {};
  }
  for (const core::Target& target : release->targets()) {
    const bool runs =
        machine.devices.empty() || std::ranges::any_of(machine.devices, [&](const auto& device) {
          return target.runs_on(device.device_class.capability);
        });
    const auto catalogue = runs ? release->triton(target, client::deadline_after(20))
                                : std::shared_ptr<const core::TritonCatalogue>();
    if (runs && catalogue && *catalogue != nullptr) {
      return std::to_string((*catalogue)->kernels.size()) + " kernels and " +
             std::to_string((*catalogue)->host.size()) + " host modules for " + target.text();
    }
  }
  return {};
}

/// One thing Triton calls for, which a release replaces.
void needed_or_not(Findings& findings, const std::string& what, bool there,
                   const std::string& found, bool replaced, const std::string& remedy) {
  if (there) {
    findings.push_back({"triton", what, State::ok, found, ""});
  } else if (replaced) {
    findings.push_back(
        {"triton", what, State::unneeded, found + "; the release makes it unnecessary", ""});
  } else {
    findings.push_back(
        {"triton", what, State::lacking, found,
         remedy + ", or use a release with Triton entries (cubinary triton hydrate)"});
  }
}

/// What flash-linear-attention would run on here, as it finds out itself: by asking Triton. That
/// may compile what a program's first launch would.
void check_fla(const fs::path& python, const std::string& version, bool replaced,
               Findings& findings) {
  constexpr const char* k_what = "flash-linear-attention";
  const auto package = python_folder();
  const auto answer = package ? run_python(python, "PYTHONPATH='" + python_path(*package) + "'",
                                           "-m cubinary.triton.fla --json")
                              : core::Result<Answer>(core::fail(package.error()));
  const auto said = answer ? json::parse(answer->text) : core::Result<json::Value>(json::Value());
  const std::string device = said ? text_at(*said, "device") : "";
  if (device.empty()) {
    findings.push_back(
        {"triton", k_what, State::note, version,
         "it falls back to the CPU without a word when Triton's first step fails: hydrate before "
         "`import fla`"});
  } else if (device == "cpu") {
    findings.push_back(
        {"triton", k_what, replaced ? State::note : State::lacking,
         version + " would fall back to the CPU without a word: " + text_at(*said, "why"),
         "hydrate a release and export what `cubinary triton env` prints, before "
         "`import fla`"});
  } else {
    findings.push_back({"triton", k_what, State::ok, version + " would run on " + device, ""});
  }
}

void check_python(const fs::path& program, const core::Result<Python>& python, bool replaced,
                  Findings& findings) {
  if (!python) {
    findings.push_back({"triton", "python3", State::lacking, python.error().message,
                        "install Python 3, or put the program's own first on the PATH"});
    return;
  }
  findings.push_back(
      {"triton", "python3", State::ok,
       python->version + ", ABI " + python->abi + ", glibc " + ::gnu_get_libc_version(), ""});
  findings.push_back({"triton", "triton package",
                      python->triton.empty() ? State::lacking : State::ok,
                      python->triton.empty() ? "not installed" : python->triton,
                      python->triton.empty() ? "pip install triton (it comes with torch)" : ""});
  needed_or_not(findings, "Python.h", python->header,
                python->header ? python->include : "not in " + python->include, replaced,
                "install the headers of this Python (python3-dev)");
  if (!python->fla.empty()) {
    check_fla(program, python->fla, replaced, findings);
  }
}

}  // namespace

void check_triton(client::Release* release, const Machine& machine, Findings& findings) {
  const std::string entries = triton_in(release, machine);
  const bool replaced = !entries.empty();
  if (release != nullptr) {
    findings.push_back({"triton", "release's Triton entries", replaced ? State::ok : State::note,
                        replaced ? entries : "none",
                        replaced ? "" : "capture and build them (cubinary triton capture, build)"});
  }
  const fs::path python = find_program({"python3", "python"});
  check_python(python,
               python.empty() ? core::Result<Python>(
                                    core::fail(core::ErrorCode::environment, "not on the PATH"))
                              : ask(python),
               replaced, findings);

  const std::string named = from_environment("CC");
  const fs::path compiler = named.empty() ? find_program({"gcc", "clang"}) : find_program({named});
  const bool compiles = !compiler.empty() || (!named.empty() && ::access(named.c_str(), X_OK) == 0);
  needed_or_not(findings, "C compiler", compiles,
                !compiler.empty() ? compiler.string()
                : compiles        ? named
                                  : "neither gcc nor clang on the PATH",
                replaced, "install gcc");

  // Triton hashes what `file` says into the names of its cache folders.
  const fs::path file = find_program({"file"});
  if (!file.empty()) {
    findings.push_back({"triton", "file", State::ok, file.string(), ""});
  } else {
    findings.push_back({"triton", "file", replaced ? State::unneeded : State::note,
                        replaced ? "not on the PATH; the plug-in finds host modules without it"
                                 : "not on the PATH",
                        replaced ? ""
                                 : "caches made where `file` is installed are not found here, and "
                                   "the other way round"});
  }

  const std::string library = from_environment("TRITON_LIBCUDA_PATH");
  std::error_code ignored;
  const bool ldconfig =
      fs::exists("/sbin/ldconfig", ignored) || fs::exists("/usr/sbin/ldconfig", ignored);
  const bool points = !library.empty() && fs::exists(fs::path(library) / "libcuda.so.1", ignored);
  if (points) {
    findings.push_back({"triton", "libcuda path", State::ok, "TRITON_LIBCUDA_PATH=" + library, ""});
  } else if (!library.empty()) {
    findings.push_back({"triton", "libcuda path", State::lacking,
                        "TRITON_LIBCUDA_PATH=" + library + " holds no libcuda.so.1",
                        "point it at the folder that does"});
  } else if (ldconfig) {
    findings.push_back({"triton", "libcuda path", State::ok, "Triton asks ldconfig", ""});
  } else {
    needed_or_not(findings, "libcuda path", false,
                  "no ldconfig, and TRITON_LIBCUDA_PATH is not set", replaced,
                  "set TRITON_LIBCUDA_PATH to the folder of libcuda.so.1");
  }

  const std::string home = from_environment("TRITON_CACHE_DIR").empty()
                               ? from_environment("HOME")
                               : from_environment("TRITON_CACHE_DIR");
  const bool writable = !home.empty() && ::access(home.c_str(), W_OK) == 0;
  needed_or_not(findings, "cache folder", writable,
                home.empty() ? "neither TRITON_CACHE_DIR nor HOME is set"
                : writable   ? home
                             : home + " cannot be written",
                replaced, "set TRITON_CACHE_DIR to a folder that can be written");
}

}  // namespace cubinary::cli
