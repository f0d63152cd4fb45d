# SPDX-License-Identifier: Apache-2.0
"""Which part of a key differs: a miss against the entries of a hydrated folder.

python -m cubinary.triton.explain MISSES [--cache DIR] [--json]
"""

import argparse
import json
import sys

# What a part is called to a person, in the order of its weight: an entry that differs in the first can
# hardly be the one that was meant.
_WORDS = {
    "name": "kernel",
    "machine": "machine",
    "triton": "Triton version",
    "python_abi": "Python ABI",
    "triton_key": "Triton wheel",
    "arch": "arch",
    "ptxas": "ptxas",
    "source.line": "source line",
    "source.function": "function text",
    "signature": "signature",
    "constants": "constants",
    "attrs": "argument alignment or divisibility",
}
# Sums of other parts: they differ when those do.
_DERIVED = {"source", "backend", "options", "ptxas.id", "function", "option.arch"}


def differences(miss, entry):
    """[(part, in the miss, in the release)] of a miss and an entry. Derived parts only where nothing finer
    tells the difference."""
    wanted = {
        "name": miss.get("name"),
        "triton": miss.get("triton"),
        "python_abi": miss.get("python_abi"),
        "machine": miss.get("machine"),
        **miss.get("key_parts", {}),
    }
    held = {
        "name": entry.get("name"),
        "triton": entry.get("triton"),
        "python_abi": entry.get("python_abi"),
        "machine": entry.get("machine"),
        **entry.get("key_parts", {}),
    }
    differ = [
        (part, wanted[part], held[part])
        for part in wanted.keys() & held.keys()
        if wanted[part] != held[part] and held[part] not in (None, "")
    ]
    # An option or environment variable that only one side has is a difference as well.
    for part in wanted.keys() ^ held.keys():
        if part.startswith(("option.", "env.")) and entry.get("key_parts"):
            differ.append((part, wanted.get(part), held.get(part)))
    fine = [difference for difference in differ if difference[0] not in _DERIVED]
    return sorted(fine or differ, key=lambda difference: _rank(difference[0]))


def _rank(part):
    order = list(_WORDS)
    return (order.index(part) if part in order else len(order), part)


def _weight(differ):
    order = list(_WORDS)
    return sum(2 ** (len(order) - order.index(part)) if part in order else 1 for part, _, _ in differ)


def nearest(miss, entries):
    """(key, differences) of the entry most like the miss; (None, []) when there is none of its name."""
    candidates = {key: entry for key, entry in entries.items() if entry.get("name") == miss.get("name")}
    ranked = [
        (_weight(differ), key, differ)
        for key, entry in candidates.items()
        for differ in [differences(miss, entry)]
    ]
    if not ranked:
        return None, []
    _, key, differ = min(ranked, key=lambda each: each[:2])
    return key, differ


def word(part):
    kind, _, name = part.partition(".")
    if kind == "option":
        return f"option {name}"
    if kind == "env":
        return f"environment variable {name}"
    return _WORDS.get(part, part)


def _short(value):
    text = "unset" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:24]}…{text[-24:]}"


def sentence(miss, entries):
    """One sentence: the nearest entry and what tells it apart."""
    key, differ = nearest(miss, entries)
    if key is None:
        names = sorted({entry.get("name", "") for entry in entries.values()})
        if not names:
            return "It holds no kernel at all."
        import difflib

        close = difflib.get_close_matches(miss.get("name", ""), names, 1)
        return f"It holds no kernel of this name{f'; the nearest is {close[0]!r}' if close else ''}."
    if not differ:
        return f"The nearest entry, {key}, differs in nothing that was recorded of it."
    told = "; ".join(
        f"{word(part)} is {_short(here)} here and {_short(there)} in the release"
        for part, here, there in differ
    )
    return f"The nearest entry, {key}, differs: {told}."


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m cubinary.triton.explain",
        description=__doc__.splitlines()[0],
        epilog="example: python -m cubinary.triton.explain /cache/cubinary-misses.jsonl --cache /cache",
    )
    parser.add_argument("misses", help="file of misses, one JSON object a line")
    parser.add_argument("--cache", help="hydrated folder (default: CUBINARY_TRITON_CACHE)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    import os

    from .index import NAME

    folder = options.cache or os.environ.get("CUBINARY_TRITON_CACHE") or os.path.dirname(options.misses)
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            entries = json.load(file).get("kernels", {})
        with open(options.misses, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
    except OSError as error:
        print(
            f"cannot read {error.filename}: {error.strerror}. Name the hydrated folder with --cache.",
            file=sys.stderr,
        )
        return 3
    seen = set()
    for line in lines:
        try:
            miss = json.loads(line)
        except ValueError:
            continue  # a line that its writer did not finish
        if miss.get("key") in seen:
            continue
        seen.add(miss.get("key"))
        key, differ = nearest(miss, entries) if miss.get("kind") == "kernel" else (None, [])
        if options.json:
            print(
                json.dumps(
                    {
                        "key": miss.get("key"),
                        "kind": miss.get("kind"),
                        "name": miss.get("name"),
                        "nearest": key,
                        "differs": {part: [here, there] for part, here, there in differ},
                    }
                )
            )
        elif miss.get("kind") == "kernel":
            print(f"{miss.get('name')} {miss.get('key')}: {sentence(miss, entries)}")
        else:
            print(f"{miss.get('name')} {miss.get('key')}: no {miss.get('kind')} of this key in the release.")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
