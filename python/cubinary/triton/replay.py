# SPDX-License-Identifier: Apache-2.0
"""Ask Triton again for what was recorded, with a driver that only names a target."""

import importlib
import importlib.util
import multiprocessing
import os
import re
import runpy
import sys

from . import asking, device, hostbuild, mock


def _prepare(options):
    """Make this process one that compiles for the target; before any of the program's modules is imported."""
    from triton.runtime import driver

    from . import capture

    capture.measuring = False
    facts = device.facts(options.device_class) if options.device_class else None
    mock.impersonate(options.arch, facts)
    driver.set_active(mock.Driver(options.arch, facts))
    for place in reversed(options.path):
        sys.path.insert(0, os.path.abspath(place))


# --- records ---


def records(options, lines):
    """One outcome a line, in any order. Lines are dealt to worker processes: a crash of the compiler costs the
    line it was at, and what a program's import does stays in there."""
    jobs = min(options.jobs or len(os.sched_getaffinity(0)), len(lines)) or 1
    fork = multiprocessing.get_context("fork")
    queue = list(enumerate(lines))
    slices = [queue[start::jobs] for start in range(jobs)]
    workers = [_Worker(fork, options, part) for part in slices]
    while workers:
        ready = multiprocessing.connection.wait([worker.pipe for worker in workers])
        for worker in [worker for worker in workers if worker.pipe in ready]:
            try:
                yield worker.receive()
            except EOFError:
                worker.process.join()
                workers.remove(worker)
                if worker.left:  # it died at the first of these
                    _, line = worker.left[0]
                    yield {
                        "status": "crashed",
                        "name": line.get("name", "?"),
                        "key": "",
                        "why": f"the compiler died (exit {worker.process.exitcode})",
                    }
                    if worker.left[1:]:
                        workers.append(_Worker(fork, options, worker.left[1:]))
    yield from hostbuild.outcomes(options)


class _Worker:
    def __init__(self, fork, options, part):
        self.left = list(part)
        self.pipe, remote = fork.Pipe(duplex=False)
        self.process = fork.Process(target=_work, args=(options, part, remote))
        self.process.start()
        remote.close()

    def receive(self):
        outcome = self.pipe.recv()
        self.left.pop(0)
        return outcome


def _work(options, part, pipe):
    _prepare(options)
    for _, line in part:
        pipe.send(_compile(options, line))
    pipe.close()


def _compile(options, line):
    outcome = {
        "status": "skipped",
        "name": line.get("name", "?"),
        "key": "",
        "recorded": line.get("target", ""),
    }
    if "unrecordable" in line:
        return outcome | {"why": f"{line['unrecordable']}. Build it by running the program: -- PROGRAM"}
    try:
        function = _function(line)
    except _NotFound as error:
        return outcome | {"why": str(error)}
    notes = []
    if function.cache_key != line["source"]:
        notes.append("its source is not the recorded one: it changed, or the program chooses it by the GPU")
    described, why = _with_facts(options, line, function)
    if why:
        return outcome | {"why": why}
    try:
        given = {name: mock.decode(value) for name, value in line["options"].items()}
        kernel = function.warmup(*[mock.argument(each) for each in described], grid=(1,), **given)
        hostbuild.launcher(kernel)
    except Exception as error:
        return outcome | {"status": "failed", "why": _first_line(error)}
    limit = mock.shared_optin(options.arch)
    if kernel.metadata.shared > limit:
        notes.append(
            f"it needs {kernel.metadata.shared} bytes of shared memory, {options.target} has {limit}: it will not "
            "launch"
        )
    return outcome | {
        "status": "ok",
        "key": asking.base32(bytes.fromhex(kernel.hash)),
        "note": "; ".join(notes),
    }


def _first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


class _NotFound(Exception):
    pass


def _function(line):
    """The JITFunction of a record, by import, or out of the file when it was the main program."""
    name = line["function"]
    if "<locals>" in name:
        raise _NotFound(
            "it is defined inside a function and cannot be imported. Build it by running the program: "
            "-- PROGRAM"
        )
    try:
        found = _module(line)
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise _NotFound(f"{line['module']} has no {name} any more, or only on another GPU") from None
    except BaseException as error:
        raise _NotFound(
            f"{line['module']} cannot be imported without a GPU: {_first_line(error)}. Build it by running "
            "the program where it runs: -- PROGRAM"
        ) from None
    found = mock.unwrap(found)
    if not hasattr(found, "cache_key"):
        raise _NotFound(f"{line['module']}:{name} is no Triton function here")
    return found


def _module(line):
    module = line["module"]
    if line["root"] not in sys.path and os.path.isdir(line["root"]):
        sys.path.append(line["root"])
    if module != "__main__":
        return importlib.import_module(module)
    alias = f"cubinary_main_{abs(hash(line['file']))}"
    if alias not in sys.modules:
        spec = importlib.util.spec_from_file_location(alias, line["file"])
        if spec is None:
            raise ImportError(f"no such file: {line['file']}")
        sys.modules[alias] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[alias])
        except BaseException:
            del sys.modules[alias]
            raise
    return sys.modules[alias]


_SM_COUNT = re.compile(
    r"(?i)(^|_)(num|n|count)?_?(sms?|sm_?count|multi_?processors?|multi_?processor_?count)(_|$)"
)


def _with_facts(options, line, function):
    """The recorded arguments with constants that are facts of the recording GPU put right: (arguments, why not)."""
    described = list(line["arguments"])
    recorded = device.facts(line.get("device_class", ""))
    if recorded is None or recorded[:2] == divmod(options.arch, 10) and not options.device_class:
        return described, ""
    wanted = device.facts(options.device_class) if options.device_class else None
    for position, argument in enumerate(described):
        name = function.arg_names[position]
        if argument.get("constant") != recorded[2] or not _SM_COUNT.search(name):
            continue
        if wanted is None:
            return described, (
                f"its constant {name} = {recorded[2]} is the SM count of the recording GPU. Name the "
                "GPU to build for with --device-class"
            )
        described[position] = {"constant": wanted[2]}
    return described, ""


# --- the program itself ---


def program(options):
    """Run a program with launches left out; an outcome for every kernel it had compiled, and one for how it ended."""
    _prepare(options)
    from triton.runtime import driver

    from . import capture

    driver.set_active(
        mock.Running(options.arch, device.facts(options.device_class) if options.device_class else None)
    )
    compiled = {}
    capture.observers.append(lambda key, variables: compiled.setdefault(key, variables["src"]))
    sys.argv = list(options.program)
    ended = ""
    try:
        if options.program[0] == "-m":
            sys.argv = list(options.program[1:])
            runpy.run_module(options.program[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(options.program[0])))
            runpy.run_path(options.program[0], run_name="__main__")
    except SystemExit as error:
        ended = f"it exited with {error.code}" if error.code not in (None, 0) else ""
    except BaseException as error:
        ended = _first_line(error)
    for key, src in compiled.items():
        yield {"status": "ok", "name": _name(src), "key": key, "note": ""}
    if ended:
        yield {
            "status": "failed",
            "name": options.program[0],
            "key": "",
            "why": f"{ended}; what it had compiled until then is kept",
        }
    yield from hostbuild.outcomes(options)


def _name(src):
    fn = getattr(src, "fn", None)
    return f"{fn.module}:{fn.fn.__qualname__}" if fn is not None else asking.kernel_name({"src": src})
