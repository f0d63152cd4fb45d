# SPDX-License-Identifier: Apache-2.0
"""What programs were compiled against stays as it is: exported functions, layouts, numbers.

abi.golden is only ever added to: a field may follow the last one of its struct (whose size then
grows), a function or a number may be new. To add: run with CUBINARY_WRITE_GOLDEN=1.
"""

import os
import re
import subprocess
import unittest

import harness

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "abi.golden")


def now():
    library = str(harness.folder("CUBINARY_LIB") / "libcubinary.so.0")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                            text=True).stdout
    functions = re.findall(r" T (cubinary_\w+)@@(CUBINARY_[\d.]+)", listed)
    lines = ["function %s %s" % function for function in sorted(functions)]
    sizes = subprocess.run([str(harness.test_program("abi_sizes"))], check=True, capture_output=True,
                           text=True).stdout
    return lines + sizes.splitlines()


def entries(lines):
    """name → what it is; fields by struct and name, sizes of structs apart."""
    found, struct = {}, None
    for line in lines:
        words = line.split()
        if words[0] == "struct":
            struct = words[1]
            found["struct " + struct] = int(words[2])
        elif line.startswith("  "):
            found["%s.%s" % (struct, words[0])] = words[1:]
        else:
            found["%s %s" % (words[0], words[1])] = words[2:]
    return found


class Abi(unittest.TestCase):
    def test_what_was_there_is_there_as_it_was(self):
        current = now()
        if os.environ.get("CUBINARY_WRITE_GOLDEN"):
            with open(GOLDEN, "w", encoding="utf-8") as file:
                file.write("\n".join(current) + "\n")
        with open(GOLDEN, encoding="utf-8") as file:
            golden = file.read().splitlines()
        before, after = entries(golden), entries(current)
        self.assertGreater(len(before), 60)
        for name, value in before.items():
            self.assertIn(name, after)
            if name.startswith("struct "):
                self.assertGreaterEqual(after[name], value, name)
            else:
                self.assertEqual(after[name], value, name)
        self.assertEqual(current, golden, "new: add it to abi.golden (CUBINARY_WRITE_GOLDEN=1)")

    def test_nothing_else_is_exported(self):
        library = str(harness.folder("CUBINARY_LIB") / "libcubinary.so.0")
        listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                                capture_output=True, text=True).stdout
        for line in listed.splitlines():
            self.assertRegex(line.split()[-1], r"^(cubinary_\w+@@CUBINARY_[\d.]+|CUBINARY_[\d.]+)$")


if __name__ == "__main__":
    harness.need_tools("nm")
    harness.main()
