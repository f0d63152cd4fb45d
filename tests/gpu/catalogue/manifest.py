# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel's manifest: which configs are valid for a problem, and how each is launched."""

import itertools
import pathlib
import tomllib

from expressions import Expression

SPELLING = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "f64": "double",
            "f8_e4m3": "__nv_fp8_e4m3", "f8_e5m2": "__nv_fp8_e5m2", "i32": "int", "i64": "long long",
            "i8": "signed char", "u8": "unsigned char", "bool": "bool"}
SIZE = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "f8_e4m3": 1, "f8_e5m2": 1, "i32": 4, "i64": 8,
        "i8": 1, "u8": 1, "bool": 1}


class _Scope(dict):
    """Values by name; a let is computed when it is first asked for."""

    def __init__(self, values, lets):
        super().__init__(values)
        self.lets = lets

    def __missing__(self, name):
        value = self[name] = self.lets[name](self)
        return value


class Manifest:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        data = self.data = tomllib.loads((self.folder / "kernel.toml").read_text())
        self.name = data["name"]
        self.types = {name: t if isinstance(t, list) else t["values"]
                      for name, t in data.get("types", {}).items()}
        self.axes = data.get("axes", {})
        self.compiled = [name for name, axis in self.axes.items() if axis.get("compile")]
        self.tunables = data.get("tunables", {})
        self.code = [name for name, t in self.tunables.items()
                     if t.get("as", "template") == "template"]
        rules = data.get("rules", {})
        self.lets = {name: Expression(text) for name, text in rules.get("let", {}).items()}
        self.rules = [Expression(text) for text in rules.get("require", [])]
        launch = data.get("launch", {})
        self.arguments = data.get("args") or launch.get("args")
        self.steps = data.get("step") or [{"name": "", "entry": data["entry"], **launch}]
        self.expressions = {}
        # The tunables that each rule needs bound, through lets.
        order = list(self.tunables)
        self.after = [max((order.index(n) for n in self._reach(rule) if n in order), default=-1)
                      for rule in self.rules]

    def _reach(self, expression):
        names = set()
        for name in expression.names:
            names |= self._reach(self.lets[name]) if name in self.lets else {name}
        return names

    def evaluate(self, text, scope):
        if text not in self.expressions:
            self.expressions[text] = Expression(text)
        return self.expressions[text](scope)

    def target(self, base):
        """What to compile for where code for `base`, as `sm_90`, runs: `sm_90a` where the manifest names that."""
        return base + "a" if base + "a" in self.data.get("targets", []) else base

    def fixed(self, types, shape, alignments, device):
        """All that expressions see besides tunables. `alignments` by argument; absent: aligned."""
        values = dict(shape)
        values |= {f"sizeof({name})": SIZE[dtype] for name, dtype in types.items()}
        values |= {f"sizeof({name})": size for name, size in SIZE.items()}
        values |= {f"align({a['name']})": alignments.get(a["name"], 256) for a in self.arguments}
        values |= device
        if "target.cc" in device and "target.specific" not in device:
            values["target.specific"] = int(self.target(f"sm_{device['target.cc']}").endswith("a"))
        return values

    def scope(self, config, fixed):
        return _Scope({**fixed, **{name: int(v) if not isinstance(v, str) else v
                                   for name, v in config.items()}}, self.lets)

    def valid(self, config, fixed):
        scope = self.scope(config, fixed)
        return all(rule(scope) for rule in self.rules)

    def configs(self, fixed):
        """Every valid config."""
        names = list(self.tunables)

        def extend(config):
            depth = len(config)
            scope = self.scope(config, fixed)
            if not all(rule(scope) for rule, after in zip(self.rules, self.after)
                       if after == depth - 1):
                return
            if depth == len(names):
                yield dict(config)
                return
            for value in self.tunables[names[depth]]["values"]:
                yield from extend({**config, names[depth]: value})

        yield from extend({})

    def preferred(self, fixed):
        """What runs where nothing was tuned: the first valid of `prefer`, else the default."""
        default = {name: t["default"] for name, t in self.tunables.items()}
        for some in [*self.data.get("prefer", []), {}]:
            if self.valid({**default, **some}, fixed):
                return {**default, **some}
        raise ValueError(f"{self.name}: no config is valid for {fixed}")

    def entry(self, text, types, shape, config):
        words = {name: SPELLING[dtype] for name, dtype in types.items()}
        words |= {name: str(shape[name]) for name in self.compiled}
        words |= {name: str(v).lower() if isinstance(v, bool) else str(v)
                  for name, v in config.items()}
        for name, word in words.items():
            text = text.replace("{" + name + "}", word)
        return text

    def entries(self, types, compiled, target):
        """Every name expression of the candidates of these types and compiled axes for a target."""
        values = [self.tunables[name]["values"] for name in self.code]
        rules = [rule for rule in self.rules
                 if self._reach(rule) <= {*self.code, *compiled, "target.cc", "target.specific",
                                          *(f"sizeof({t})" for t in [*types, *SIZE])}]
        device = {"target.cc": int(target.strip("sm_af")), "target.specific": int(target.endswith("a"))}
        found = {}
        for choice in itertools.product(*values):
            config = dict(zip(self.code, choice))
            scope = self.scope(config, self.fixed(types, compiled, {}, device))
            if all(rule(scope) for rule in rules):
                for step in self.steps:
                    found[self.entry(step["entry"], types, compiled, config)] = None
        return list(found)
