# SPDX-License-Identifier: Apache-2.0
"""Compile recorded specialisations for a target on a machine that has no GPU.

    python -m cubinary.triton.build --record FILE... --target sm_120 --out DIR [--device-class C] [-- PROGRAM ARGS...]

Keys are made by Triton's own binder and compiler, so they are those that a real GPU of that target asks for.
With PROGRAM, the program itself runs with a driver that only compiles: for kernels that exist only inside it.
Writes a capture folder; exit 0 all compiled, 1 some could not be (said on standard error), 2 used wrongly, 3 the
environment lacks something.
"""

import argparse
import json
import os
import re
import sys


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m cubinary.triton.build",
        description=__doc__.splitlines()[0],
        epilog="example: python -m cubinary.triton.build --record capture/records/*.jsonl --target sm_120 --out built",
    )
    parser.add_argument(
        "--record",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="records of a capture (files or their folder)",
    )
    parser.add_argument("--target", required=True, help="sm_90, sm_120, …")
    parser.add_argument("--out", required=True, metavar="DIR", help="capture folder to write")
    parser.add_argument(
        "--device-class",
        default="",
        metavar="C",
        help="sm120-s188-l128M-b512-m96G: what programs are told about the GPU, and what stands for "
        "device facts among recorded constants",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="where the program's modules are, when not where they were recorded",
    )
    parser.add_argument("--jobs", type=int, default=0, help="compiler processes (default: one a core)")
    parser.add_argument("--json", action="store_true", help="one object a specialisation, then a summary")
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM ARGS")
    options = parser.parse_args(arguments)
    match = re.fullmatch(r"(?:sm_?)?(\d{2,3})[af]?", options.target)
    if not match:
        parser.error(f"'{options.target}' is no target; one looks like sm_120")
    options.arch = int(match.group(1))
    if not options.record and not options.program:
        parser.error("nothing to build: name --record FILE, or a program after --")
    return options


class NoRecord(ValueError):
    """A file that holds no records; the text says where."""


_IDENTITY = ("module", "function", "arguments", "options", "unrecordable", "name")


def load(paths):
    """Specialisations of record files, each once, in order; unfinished last lines are passed over."""
    found = {}
    for path in paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".jsonl"))
        for file in files:
            with open(file, encoding="utf-8") as text:
                for number, line in enumerate(text, 1):
                    if line.endswith("\n"):
                        entry = _entry(line, f"{file}:{number}")
                        found.setdefault(json.dumps([entry.get(part) for part in _IDENTITY]), entry)
    return list(found.values())


def _entry(line, where):
    from .record import VERSION

    try:
        entry = json.loads(line)
        version = entry["record"]
    except (ValueError, TypeError, KeyError):
        raise NoRecord(f"{where}: no record of a specialisation") from None
    if version != VERSION:
        raise NoRecord(f"{where}: a record of format {version}, this program reads {VERSION}")
    return entry


def main(arguments=None):
    options = parse(sys.argv[1:] if arguments is None else arguments)
    os.environ["TRITON_CACHE_MANAGER"] = "cubinary.triton:CaptureManager"
    os.environ["CUBINARY_TRITON_CAPTURE"] = os.path.abspath(options.out)
    os.environ["CUBINARY_TRITON_RECORD"] = "0"
    try:
        lines = load(options.record)
        from .environment import triton_version

        triton_version()
    except OSError as error:
        print(f"cannot read {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    except NoRecord as error:
        print(error, file=sys.stderr)
        return 2
    except ImportError as error:
        print(error, file=sys.stderr)
        return 3
    note_versions(lines)
    from . import replay, stub

    with stub.libcuda():
        if options.program:
            done = replay.program(options)
        else:
            done = replay.records(options, lines)
        outcomes = list(done)
    return report(options, outcomes)


def note_versions(lines):
    """Entries serve the Triton and the Python that build them, whichever recorded."""
    from .environment import python_abi, triton_version

    here = (triton_version(), python_abi())
    for triton, abi in sorted({(line.get("triton"), line.get("python_abi")) for line in lines} - {here}):
        print(
            f"note: recorded with Triton {triton} for {abi}; what is built here serves Triton {here[0]} for {here[1]}",
            file=sys.stderr,
        )


def report(options, outcomes):
    failed = [outcome for outcome in outcomes if outcome["status"] != "ok"]
    for outcome in outcomes:
        if options.json:
            print(json.dumps(outcome, sort_keys=True))
        elif outcome["status"] == "ok":
            note = f"  ({outcome['note']})" if outcome.get("note") else ""
            print(f"ok       {outcome['key']}  {outcome['name']}{note}")
    for outcome in failed:
        if not options.json:
            print(f"{outcome['status']:<8} {outcome['name']}: {outcome['why']}", file=sys.stderr)
    summary = {
        "ok": len(outcomes) - len(failed),
        "failed": len(failed),
        "target": options.target,
        "out": options.out,
    }
    print(
        json.dumps(summary, sort_keys=True)
        if options.json
        else f"{summary['ok']} compiled for {options.target}, {summary['failed']} not covered; in {options.out}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
