"""The former commands, which are parts of other commands now.

They work for one more release: their words are translated into the new ones, and one line on the
error stream says what the command is called now.
"""

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple


class FormerCommand(NamedTuple):
    """The new words without an argument, and with the argument in the place of {}."""

    words: str
    with_argument: str = ""


FORMER: Final = {
    "adjust": FormerCommand("simulate --adjust", "simulate --adjust {}"),
    "defrag": FormerCommand("simulate --defrag", "simulate --defrag {}"),
    "facts": FormerCommand("config facts"),
    "lint": FormerCommand("check"),
    "who": FormerCommand("explain devices", "explain device/{}"),
}
# The options of commands with an argument that not exactly one word follows.
_FLAG: Final = "--debug"
_HELP: Final = frozenset({"-h", "--help"})
_PATHS: Final = ("--cluster", "--inventory")
_MAY_HAVE_VALUE: Final = "--context"


class RenewedCommand(NamedTuple):
    """The words that took the place of a former command, and those that follow."""

    words: tuple[str, ...]
    options: tuple[str, ...] = ()

    def describe(self, name: str, program: str) -> str:
        """Return the line for a person who used the former `name`."""
        return f"`{program} {name}` is now `{program} {shlex.join(self.words)}`\n"


def renew(name: str, words: Sequence[str]) -> RenewedCommand:
    """Translate a former command and the words that follow it."""
    former = FORMER[name]
    if not _HELP.isdisjoint(words):
        names = (each for each in former.words.split() if not each.startswith("-"))
        return RenewedCommand(tuple(names), ("--help",))
    at = _find_argument(words, required=name == "adjust") if former.with_argument else None
    if at is None:
        return RenewedCommand(tuple(former.words.split()), tuple(words))
    new = (each.format(words[at]) for each in former.with_argument.split())
    return RenewedCommand(tuple(new), (*words[:at], *words[at + 1 :]))


def _find_argument(words: Sequence[str], *, required: bool) -> int | None:
    """Return the place of the first word that no option takes, else of one that it can spare."""
    spare = None
    option, taken = "", 0
    for at, word in enumerate(words):
        if word.startswith("-") and word != "-":
            attached = "=" in word or (word[1] != "-" and len(word) > len("-o"))
            option, taken = "" if attached or word == _FLAG else word, 0
        elif not option or (taken and option not in _PATHS):
            return at
        else:
            taken += 1
            spare = at if taken > 1 or option == _MAY_HAVE_VALUE else spare
    return spare if required else None
