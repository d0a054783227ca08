"""Writes YAML with Helm expressions: placeholders in the value, replaced in the dumped text."""

import re
from typing import Any, Final

import yaml

_TOKEN: Final = re.compile(r"^(?P<indent> *)(?P<dash>(?:- )*)(?P<token>ZZ\d{4}ZZ)(?:: null)?$")


class _Quoted(str):
    """A string that is dumped in double quotes."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line strings as literal blocks, and indents list items."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002  # the signature of PyYAML
        """Indent items of a list below their key."""
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if isinstance(text, _Quoted) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(_Quoted, _represent_text)


class Placeholders:
    """The Helm expressions of one object."""

    def __init__(self) -> None:
        self._inline: dict[str, str] = {}
        self._lines: dict[str, str] = {}

    def inline(self, expression: str) -> str:
        """Return a value that becomes `{{ expression }}`."""
        token = self._new()
        self._inline[token] = f"{{{{ {expression} }}}}"
        return token

    def quote(self, text: str, part: str, expression: str) -> str:
        """Return text in which `part` becomes an expression, quoted so that it stays a string."""
        token = self._new()
        self._inline[token] = expression
        whole = text.replace(part, token)
        return whole if '"' in text or "\n" in text else _Quoted(whole)

    def lines(self, text: str) -> str:
        """Return a key, or an item of a list, that becomes lines.

        In the lines, `%N` is replaced by the indentation of the line plus N.
        """
        token = self._new()
        self._lines[token] = text
        return token

    def dump(self, value: Any) -> str:  # noqa: ANN401  # JSON
        """Return the YAML text with all expressions."""
        dumped = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
        text = "\n".join(map(self._expand, dumped.splitlines())) + "\n"
        for token, expression in self._inline.items():
            text = text.replace(token, expression)
        return text

    def _expand(self, line: str) -> str:
        token = _TOKEN.match(line)
        if token is None or token["token"] not in self._lines:
            return line
        indent = token["indent"]

        def shift(number: re.Match[str]) -> str:
            return f"{len(indent) + int(number[1])}"

        text = re.sub(r"%(\d+)", shift, self._lines[token["token"]])
        return "\n".join(f"{indent}{each}" for each in text.splitlines())

    def _new(self) -> str:
        return f"ZZ{len(self._inline) + len(self._lines):04}ZZ"
