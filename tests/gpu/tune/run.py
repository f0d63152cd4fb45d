#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tuner on a real GPU: kernels that do harm, stops and kills, many tuners at once.

    run.py [BIN]      BIN: the folder of `cubinary` (build/release/bin), beside bench/ with tune_agree

Prints a line a check, PASS or FAIL. Exit status: 0 all passed, 1 some failed, 125 no GPU.
CUBINARY_TOOLKIT is the toolkit to build the kernels with (/usr/local/cuda).
"""
import glob
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin")
CUBINARY = os.environ.get("CUBINARY_TUNE", os.path.join(BIN, "cubinary"))
AGREE = os.path.join(BIN, "..", "bench", "tune_agree")
TOOLKIT = os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda")
failed = 0

# What becomes of each mode of bad_kernels: statuses that are right, and a word of the message.
EXPECTED = {
    0: (["ok"], ""), 1: (["ok"], ""),
    2: (["wrong"], "elements of y are wrong"), 3: (["wrong"], "1 of 4194304 elements of y"),
    4: (["wrong"], "of 1001 elements of y"), 5: (["timeout"], "did not end"),
    6: (["fault"], ""), 7: (["fault"], ""),
    8: (["wrong"], "outside of y"), 9: (["wrong"], "outside of y"), 10: (["fault"], ""),
    11: (["wrong"], "changed its input x"), 12: (["wrong"], "outside of x"),
    13: (["fault"], "MISALIGNED"), 14: (["wrong"], ""), 15: (["wrong"], "of y are wrong"),
    16: (["fault"], "ILLEGAL_ADDRESS"), 17: (["wrong"], "outside of x"),
}


def check(passed, what):
    global failed
    failed += 0 if passed else 1
    print("PASS" if passed else "FAIL", what, flush=True)


def tune(store, *options, **keywords):
    return subprocess.Popen([CUBINARY, "tune", "--store", store, "--json", *options],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)


def finish(process, limit=110):
    out, err = process.communicate(timeout=limit)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def measurements(store):
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        return connection.execute("SELECT count(*) FROM measurement").fetchone()[0]


def bad_kernels(store):
    status, lines, err = finish(tune(store, "--kernel", "bad_kernels", "--time-limit", "1",
                                     "--budget", "60s"))
    summary = lines[-1] if lines else {}
    check(status == 0 and summary.get("tuned") == 1, f"bad_kernels: tuning goes on to the end {err}")
    found = {line["config"]["MODE"]: line for line in lines if line["event"] == "measured"}
    for mode, (statuses, words) in EXPECTED.items():
        line = found.get(mode, {"status": "not measured"})
        check(line["status"] in statuses and words in line.get("message", ""),
              f"bad_kernels MODE={mode}: {line['status']} {line.get('message', '')[:110]}")
    tuned = [line for line in lines if line["event"] == "tuned"]
    winner = tuned[0]["finalists"][0]["config"]["MODE"] if tuned and tuned[0]["finalists"] else None
    check(winner == 1, f"bad_kernels: MODE={winner} wins; {summary.get('worker_starts')} processes were "
                       f"used, {summary.get('seconds', 0):.1f} s")


def stops_and_kills(store, kernel):
    process = tune(store, "--kernel", kernel, "--budget", "60s", "--search", "random")
    seen = 0
    for line in process.stdout:
        seen += '"event":"measured"' in line
        if seen >= 20:
            break
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    took = time.monotonic() - begin
    kept = measurements(store)
    check(took <= 2.0, f"stop: {took:.2f} s after SIGINT, exit status {process.returncode}")
    check(kept >= 20, f"stop: {seen} results were told before it, {kept} are kept")

    process = tune(store, "--kernel", kernel, "--budget", "60s", "--search", "random")
    seen = 0
    for line in process.stdout:
        seen += '"event":"measured"' in line
        if seen >= 20:
            break
    process.kill()
    process.communicate()
    after = measurements(store)
    check(after >= kept + 19, f"kill -9: {after - kept} of at least {seen} more are kept")
    status, lines, err = finish(tune(store, "--kernel", kernel, "--budget", "3s"))
    jobs = [line for line in lines if line["event"] == "job"]
    check(status == 0 and jobs and jobs[0]["known"] >= 38,
          f"after both: goes on with {jobs[0]['known'] if jobs else 0} known {err}")


def many_at_once(store, kernel, count=8):
    stores = [f"{store}.{i}" for i in range(count)]
    for copy in stores:
        shutil.copy(store, copy)
    begin = time.monotonic()
    running = [tune(copy, "--kernel", kernel, "--shape", "n=16777216",
                    "--budget", "2s", "--seed", str(i)) for i, copy in enumerate(stores)]
    ends = [finish(process) for process in running]
    check(all(status == 0 and lines[-1]["tuned"] == 1 for status, lines, err in ends),
          f"{count} tuners at once: all end right in {time.monotonic() - begin:.1f} s "
          f"{[err for status, lines, err in ends if err]}")
    winners = {}  # config: the first store that has it
    times = []
    for copy, (status, lines, err) in zip(stores, ends):
        for line in lines:
            if line["event"] == "tuned":
                winners.setdefault(json.dumps(line["finalists"][0]["config"], sort_keys=True), copy)
                times.append(line["finalists"][0]["median_us"])
    if times:
        # Sessions differ in clocks and temperature, so that times of two are not comparable: winners are, when
        # they run in turns.
        print(f"     {len(winners)} different winners, times within {100 * (max(times) / min(times) - 1):.2f}%")
        first, *others = winners.values()
        for other in others:
            said = subprocess.run([AGREE, CUBINARY, first, other], capture_output=True, text=True)
            check(said.returncode == 0, f"{count} tuners at once: two winners run in turns "
                                        f"{said.stdout.strip()[-300:]} {said.stderr.strip()[-200:]}")
    waited = sum(line["event"] == "waiting" for status, lines, err in ends for line in lines)
    check(waited >= count - 1, f"{count} tuners at once: {waited} times one waited for another")


def main():
    if not glob.glob("/dev/nvidia[0-9]*"):
        print("SKIP tests/gpu/tune: this machine has no NVIDIA GPU (no /dev/nvidia0)")
        return 125
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "kernels.db")
        built = subprocess.run(
            [os.path.join(BIN, "cubinary"), "build", os.path.join(HERE, "bad_kernels"),
             os.path.join(HERE, "many_configs"), "--store", store, "--toolkit", TOOLKIT,
             "--target", "sm_90"], capture_output=True, text=True)
        check(built.returncode == 0, f"build {(built.stdout + built.stderr)[-300:]}")
        if built.returncode == 0:
            fresh = os.path.join(folder, "fresh.db")
            shutil.copy(store, fresh)
            bad_kernels(store)
            stops_and_kills(store, "many_configs")
            many_at_once(fresh, "many_configs")
    print(f"tests/gpu/tune: {failed} failed" if failed else "tests/gpu/tune: all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
