# SPDX-License-Identifier: Apache-2.0
"""What becomes of a build, and of its store, when it is killed, the disk is full, the clock jumps or the sources
go away. CUBINARY_KILLS=1000 is the long run."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness
import toolkits

KERNELS = harness.SOURCE / "tests" / "builder" / "kernels"
KILLS = int(os.environ.get("CUBINARY_KILLS", "6"))
WIDTHS = int(os.environ.get("CUBINARY_KILL_WIDTHS", "40"))  # candidates are twice as many, and two


class Faults(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing():
            self.skipTest(why)
        self.folder = self.tmp / "kernels" / "scale"
        self.store = self.tmp / "s.cubinary"
        shutil.copytree(KERNELS / "scale", self.folder)
        text = (self.folder / "kernel.toml").read_text()
        values = ", ".join(str(value) for value in range(1, WIDTHS + 1))
        text = text.replace("values = [1, 2, 4, 8]", f"values = [{values}]").replace("VEC * sizeof(T) <= 16", "VEC >= 1")
        (self.folder / "kernel.toml").write_text(text)
        self.candidates = 2 * WIDTHS + 2

    def command(self, *arguments):
        return [str(part) for part in (harness.binary(), "build", self.tmp / "kernels", "--store", self.store, "--target",
                                       "sm_90", "--json", *arguments)]

    def build(self, *arguments, status=0, command=(), **options):
        return self.run_program(*command, *self.command(*arguments), status=status, **options)

    def finish(self):
        """Builds what is left: everything is there then, and sound."""
        summary = self.build().json_lines()[-1]
        self.assertEqual((summary["ok"], summary["failed"]), (self.candidates, 0))
        self.cubinary("store", "fsck", "--store", self.store)
        return summary


class Kills(Faults):
    def killed(self, seconds, after_one):
        """Builds and kills the build so long after its start, or after it told of its first candidate: gives what it
        wrote, its status and how long it ran."""
        written = self.tmp / "output"
        with open(written, "w", encoding="utf-8") as output:
            process = subprocess.Popen(self.command("--explain"), stdout=output, stderr=subprocess.PIPE, text=True)
        began = time.monotonic()
        while after_one and process.poll() is None and '"event":"candidate"' not in written.read_text():
            time.sleep(0.02)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        errors = process.communicate()[1]
        return written.read_text(), errors, process.returncode, time.monotonic() - began

    def test_killed_at_random_moments(self):
        rng = random.Random(int(os.environ.get("CUBINARY_SEED", "1")))
        told = set()  # keys of candidates that some build said are done
        generation, finished, before, progressed = 0, 0, 0, 0
        longest = 2.0
        for number in range(KILLS):
            output, errors, status, seconds = self.killed(rng.uniform(0.01, longest), after_one=number % 2 == 1)
            if status != 0:
                self.assertEqual(status, -signal.SIGKILL, errors)
            lines = []
            for line in output.splitlines():
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    self.assertEqual(line, output.splitlines()[-1], "only the last line may be torn")
            explained = {line["key"]: line["reason"] for line in lines if line.get("event") == "explained"}
            lost = [key for key in told if explained.get(key, "unchanged") != "unchanged"]
            self.assertEqual(lost, [], f"after kill {number} the store forgot what it had told")
            told |= {line["key"] for line in lines if line.get("event") == "candidate" and line["status"] == "ok"}
            if self.store.exists():
                self.cubinary("store", "fsck", "--store", self.store)
            progress = len(told) > before
            progressed += progress
            # Moments to choose from: long enough for something to be done, shorter than a build from the start.
            if status == 0:
                longest = max(0.5, min(longest, seconds))
            else:
                longest = min(longest * (1.0 if progress else 1.3), 30)
            before = len(told)
            if status == 0:
                # All there is is built: on with other sources, the old ones' candidates stay.
                finished += 1
                generation += 1
                told.clear()
                before = 0
                with open(self.folder / "scale.cuh", "a", encoding="utf-8") as header:
                    header.write(f"// {generation}\n")
        self.assertGreater(progressed, 0)
        print(f"{KILLS} kills, {progressed} with progress since the one before, {finished} builds went through", flush=True)
        self.finish()

    def test_killed_before_it_packed(self):
        """All was compiled and told, nothing packed: the next build, which has nothing to compile, packs it."""
        manifest = self.folder / "kernel.toml"
        manifest.write_text(re.sub(r"values = \[1, 2, 3.*?\]", "values = [1, 2, 3, 4, 5, 6]", manifest.read_text()))
        self.candidates = 2 * 6 + 2
        for number in range(20):
            self.store = self.tmp / f"{number}.cubinary"
            process = subprocess.Popen(self.command("--jobs", "1"), stdout=subprocess.PIPE, text=True)
            told = 0
            for line in process.stdout:
                told += '"event":"candidate"' in line
                if told == self.candidates:
                    break
            process.kill()
            process.communicate()
            if self.dictionaries() == 0:
                break
        else:
            self.fail("20 builds had packed before they could be killed")
        self.assertEqual(self.finish()["compiled"], 0)
        packed = self.dictionaries()
        self.assertGreater(packed, 0)
        self.assertEqual(self.finish()["compiled"], 0)
        self.assertEqual(self.dictionaries(), packed)

    def dictionaries(self):
        return self.cubinary("store", "stats", "--store", self.store, "--json").json()["dictionary_bytes"]


class Disks(Faults):
    def mount(self, path, size):
        path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            self.skipTest("mounting is not allowed here: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", path], check=False)

    def test_a_full_disk_keeps_what_was_told_and_says_so(self):
        self.mount(self.tmp / "disk", "352k")
        self.store = self.tmp / "disk" / "s.cubinary"
        result = self.build(status=None)
        self.assertIn(result.status, (1, 3), result)
        self.assertRegex(result.stderr, r"cubinary: .*(disk is full|No space left)")
        done = [json.loads(line) for line in result.stdout.splitlines() if '"event":"candidate"' in line]
        subprocess.run(["mount", "-o", "remount,size=64m", self.tmp / "disk"], check=True)
        self.cubinary("store", "fsck", "--store", self.store)
        self.assertGreaterEqual(self.finish()["skipped"], len(done))

    def test_no_room_for_temporary_files(self):
        self.mount(self.tmp / "small", "64k")
        self.build(env={"TMPDIR": str(self.tmp / "small")})
        self.assertEqual(self.finish()["compiled"], 0)
        self.assertEqual(list((self.tmp / "small").iterdir()), [])


class Clocks(Faults):
    def test_a_clock_that_jumps(self):
        if shutil.which("faketime") is None:
            self.skipTest("faketime is not installed")
        # Ten years back, half-way through; then forth by an hour each time that somebody looks.
        process = subprocess.Popen(["faketime", "-f", "-10y", *self.command("--jobs", "2")], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if '"event":"candidate"' in line:
                break
        process.terminate()
        process.communicate()
        self.build(command=("faketime", "-f", "+0 i3600"), env={"FAKETIME_DONT_FAKE_MONOTONIC": "1",
                                                                 "DONT_FAKE_MONOTONIC": "1"})  # fmt: skip
        self.assertEqual(self.finish()["compiled"], 0)
        self.assertEqual(self.build(command=("faketime", "-f", "+30y")).json_lines()[-1]["compiled"], 0)


class Sources(Faults):
    def test_a_header_that_disappears_while_it_is_needed(self):
        header = self.folder / "scale.cuh"
        text = header.read_text()
        process = self.background(*self.command("--jobs", "1"))
        process.line('"event":"candidate"')
        header.unlink()
        process.process.wait(120)
        self.assertNotEqual(process.process.returncode, 0)
        self.assertRegex(process.text(), r"cubinary: .*scale.cuh changed while it was compiled.*run the build again")
        # What failed for want of it was not kept: with the header back, all is built.
        header.write_text(text)
        self.assertEqual(self.finish()["failed"], 0)

    def test_two_builds_into_one_store(self):
        one = self.background(*self.command())
        one.line('"event":"planned"')
        self.refused(*self.command()[1:], status=1, says=["cubinary build", "--server"])
        self.assertEqual(one.process.wait(120), 0)
        self.assertEqual(self.finish()["compiled"], 0)

    def test_a_read_only_tree_of_links(self):
        self.build()
        # The same content behind links, all of it read-only.
        real = self.tmp / "real"
        (real / "headers").mkdir(parents=True)
        shutil.move(self.folder / "scale.cuh", real / "headers" / "h")
        shutil.move(self.folder / "scale.cu", real / "s.txt")
        (self.folder / "scale.cuh").symlink_to(real / "headers" / "h")
        (self.folder / "scale.cu").symlink_to("../../real/s.txt")
        linked = self.tmp / "linked"
        linked.symlink_to(self.tmp / "kernels")
        for path in (self.folder, real, real / "headers"):
            path.chmod(0o555)
        arguments = [str(linked) if part == str(self.tmp / "kernels") else part for part in self.command()]
        again = self.run_program(*arguments)
        self.assertEqual(again.json_lines()[-1]["compiled"], 0)
        # And compiled from there, by somebody who may not write a thing beside the store.
        self.store = self.tmp / "other" / "t.cubinary"
        self.store.parent.mkdir()
        options = {}
        if os.geteuid() == 0:
            for path in (self.tmp, self.tmp / "kernels"):
                path.chmod(0o755)
            os.chown(self.store.parent, 12345, 12345)
            options = {"user": 12345, "group": 12345, "extra_groups": []}
        arguments = [str(linked) if part == str(self.tmp / "kernels") else part for part in self.command()]
        summary = self.run_program(*arguments, **options).json_lines()[-1]
        self.assertEqual((summary["ok"], summary["failed"]), (self.candidates, 0))
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["kernel.toml", "scale.cu", "scale.cuh"])


if __name__ == "__main__":
    harness.main()
