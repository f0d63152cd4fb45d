# SPDX-License-Identifier: Apache-2.0
"""What every black-box suite needs: the binaries, a folder of its own, programs run and checked.

A suite is a Python script with `harness.Case` classes that ends in `harness.main()`. ctest gives the
folders in CUBINARY_BIN (programs), CUBINARY_LIB (libraries), CUBINARY_TESTS (test programs) and
CUBINARY_ROOT (the checkout); by hand, only CUBINARY_BIN is needed.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("CUBINARY_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def folder(variable):
    """The folder the environment names; a suite started without it is used wrongly."""
    value = os.environ.get(variable)
    if not value:
        sys.exit(f"{variable} is not set: run this suite through ctest, or set it to the build's folder")
    return pathlib.Path(value)


def binary(name="cubinary"):
    return folder("CUBINARY_BIN") / name


def test_program(name):
    return folder("CUBINARY_TESTS") / name


def skip(reason):
    """Ends the whole suite as skipped, aloud."""
    print(f"SKIPPED: {reason}", flush=True)
    sys.exit(125)


def need_tools(*names):
    """Skips the whole suite unless every program is on the PATH (or in /usr/sbin)."""
    missing = [name for name in names if find_tool(name) is None]
    if missing:
        skip("this machine lacks " + ", ".join(missing))


def find_tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port():
    """A port nobody listens on now. Prefer port 0 and the printed address where the program can."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Finished:
    """A program that ended: its `status`, and `stdout` and `stderr` as text."""

    def __init__(self, command, status, stdout, stderr):
        self.command, self.status, self.stdout, self.stderr = command, status, stdout, stderr

    def json(self):
        return json.loads(self.stdout)

    def json_lines(self):
        return [json.loads(line) for line in self.stdout.splitlines() if line]

    def __str__(self):
        return (f"$ {' '.join(self.command)}\n[exit {self.status}]\n"
                f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}")


class Background:
    """A running program whose output is collected; `line` waits for one that matches."""

    def __init__(self, command, **options):
        self.command = [str(part) for part in command]
        self.output = []
        self._changed = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", **options)
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self):
        for line in self.process.stdout:
            with self._changed:
                self.output.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def text(self):
        with self._changed:
            return "\n".join(self.output)

    def line(self, pattern, timeout=60):
        """The match of the first line, past or future, that `pattern` is found in."""
        end = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                while seen < len(self.output):
                    match = re.search(pattern, self.output[seen])
                    seen += 1
                    if match:
                        return match
                left = end - time.monotonic()
                if self._ended or left <= 0:
                    why = "ended" if self._ended else f"did not within {timeout} s"
                    output = "\n".join(self.output)
                    raise AssertionError(f"{self.command} {why} without printing /{pattern}/:\n{output}")
                self._changed.wait(left)

    def stop(self, number=signal.SIGTERM, timeout=30):
        """Sends the signal unless it has ended, waits, and gives the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.command} did not end {timeout} s after signal {number}:\n{self.text()}")
        self._reader.join(timeout)
        self.process.stdout.close()
        return status


class Case(unittest.TestCase):
    """A test case with a folder of its own, `self.tmp`, removed when it ends."""

    maxDiff = None

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-test-"))
        self.addCleanup(self._remove_tmp)

    def _remove_tmp(self):
        for path in [self.tmp, *self.tmp.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
        shutil.rmtree(self.tmp, ignore_errors=True)

    def run_program(self, *command, status=0, timeout=120, env=None, stdin="", **options):
        """Runs a program to its end and checks its exit status (None: any). `env` adds to this one's."""
        command = [str(part) for part in command]
        finished = subprocess.run(command, input=stdin, capture_output=True, text=True, errors="replace",
                                  timeout=timeout, env={**os.environ, **(env or {})}, check=False, **options)
        result = Finished(command, finished.returncode, finished.stdout, finished.stderr)
        if status is not None and result.status != status:
            self.fail(f"expected exit status {status}\n{result}")
        return result

    def cubinary(self, *arguments, **options):
        """Runs `cubinary ARGUMENTS…`; options as run_program."""
        return self.run_program(binary("cubinary"), *arguments, **options)

    def refused(self, *arguments, status, says, **options):
        """Runs `cubinary ARGUMENTS…`, which must fail with this exit status and one clear error: a
        single message on stderr, nothing on stdout, in which every pattern of `says` is found."""
        result = self.cubinary(*arguments, status=status, **options)
        self.assertEqual(result.stdout, "", f"output on stdout of a refused command\n{result}")
        self.assertRegex(result.stderr, r"\Acubinary: ", f"{result}")
        self.assertEqual(result.stderr.count("cubinary: "), 1, f"more than one error\n{result}")
        for pattern in [says] if isinstance(says, str) else says:
            self.assertRegex(result.stderr, pattern, f"{result}")
        return result

    def background(self, *command, **options):
        """Starts a program that is stopped when the test ends."""
        process = Background(command, **options)
        self.addCleanup(process.stop)
        return process


class _Result(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id()}: {reason}", flush=True)


def main():
    """Runs the suite: status 0, 1 when a test failed, 125 when every one was skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2,
                            testRunner=unittest.TextTestRunner(resultclass=_Result, verbosity=2))
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0:
        sys.exit("no test ran")
    if len(result.skipped) == result.testsRun:
        sys.exit(125)
    sys.exit(0)
