# SPDX-License-Identifier: Apache-2.0
"""The manifest's expressions, evaluated a second time and independently of the product."""

import re

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_][A-Za-z_0-9]*(?:\.[a-z_]+)?|&&|\|\||[<>=!]=|[-+*/%<>!?:(),])")
_LEVELS = [["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]
_PURE = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "log2": lambda a: a.bit_length() - 1,
    "pow2_ceil": lambda a: 1 << (a - 1).bit_length(),
}


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class _Parser:
    """Turns text into Python source over `scope`, a mapping."""

    def __init__(self, text):
        self.tokens = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text!r}: not understood at {text[at:]!r}")
            self.tokens.append(match.group(1))
            at = match.end()

    def take(self, *wanted):
        if self.tokens and (not wanted or self.tokens[0] in wanted):
            return self.tokens.pop(0)
        return None

    def choice(self):
        condition = self.either()
        if self.take("?"):
            yes = self.choice()
            self.take(":")
            return f"({yes} if {condition} else {self.choice()})"
        return condition

    def either(self):
        source = self.both()
        while self.take("||"):
            source = f"(1 if {source} or {self.both()} else 0)"
        return source

    def both(self):
        source = self.level(0)
        while self.take("&&"):
            source = f"(1 if {source} and {self.level(0)} else 0)"
        return source

    def level(self, depth):
        if depth == len(_LEVELS):
            return self.unary()
        source = self.level(depth + 1)
        while operator := self.take(*_LEVELS[depth]):
            right = self.level(depth + 1)
            if operator == "/":
                source = f"quotient({source}, {right})"
            elif operator == "%":
                source = f"remainder({source}, {right})"
            else:
                source = f"int({source} {operator} {right})"
        return source

    def unary(self):
        if self.take("!"):
            return f"(0 if {self.unary()} else 1)"
        if self.take("-"):
            return f"(-{self.unary()})"
        return self.atom()

    def atom(self):
        token = self.take()
        if token == "(":
            source = self.choice()
            self.take(")")
            return source
        if token.isdigit():
            return token
        if self.take("("):
            if token in ("align", "sizeof"):
                name = self.take()
                self.take(")")
                return f"scope[{f'{token}({name})'!r}]"
            arguments = [self.choice()]
            while self.take(","):
                arguments.append(self.choice())
            self.take(")")
            return f"{token}({', '.join(arguments)})"
        return f"scope[{token!r}]"


class Expression:
    def __init__(self, text):
        parser = _Parser(str(text))
        source = parser.choice()
        if parser.tokens:
            raise ValueError(f"{text!r}: not understood at {parser.tokens[0]!r}")
        self.names = set(re.findall(r"scope\['([^']+)'\]", source))
        self._call = eval(  # of names, numbers and operators only
            f"lambda scope: int({source})",
            {"quotient": quotient, "remainder": lambda a, b: a - b * quotient(a, b), **_PURE,
             "int": int, "__builtins__": {}})

    def __call__(self, scope):
        return self._call(scope)
