"""What HAMi's dialect and Volcano's have in common: a number of virtual GPUs with parts of each.

Number, memory in units, memory in percent and cores in percent, by names of their own; types and
identities of GPUs by annotations. Knows neither of the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, cast

from config.model import Legacy
from dra.finding import Finding
from dra.quantity import Quantity
from translate.legacy.asks import Ask, Bytes, Isolation, Percent, Share
from translate.legacy.codes import AMOUNT_REFUSED, AMOUNT_SUSPICIOUS, HINT_EMPTY, WORD_UNKNOWN
from translate.legacy.pod_view import Container, PodView, Resource, annotation_path, text
from translate.legacy.selectors import Not, ProductContains, Selector, Uuid

MI: Final = 1 << 20
_INT32: Final = 2**31
_ALL: Final = Percent(Decimal(100))
_ISOLATION: Final = {
    "": Isolation.MEMORY,
    "hami-core": Isolation.MEMORY,
    "mig": Isolation.MIG,
    "mps": Isolation.MPS,
}


@dataclass(frozen=True, slots=True)
class Words:
    """The names of one dialect."""

    count: str
    memory: str
    percent: str
    cores: str
    mode: str
    use_uuid: str
    nouse_uuid: str
    use_type: str = "nvidia.com/use-gputype"
    nouse_type: str = "nvidia.com/nouse-gputype"

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of resources."""
        return (self.count, self.memory, self.percent, self.cores)

    @property
    def annotations(self) -> tuple[str, ...]:
        """The names of annotations."""
        return (self.mode, self.use_uuid, self.nouse_uuid, self.use_type, self.nouse_type)


def amount(legacy: Mapping[str, Quantity], name: str, usual: int) -> int:
    """Return what the configuration says of a resource."""
    said = legacy.get(name)
    return usual if said is None else said.value()


def units(legacy: Legacy) -> Mapping[str, Quantity]:
    """Return how much one of a resource is."""
    return cast("Mapping[str, Quantity]", legacy.units)


def defaults(legacy: Legacy) -> Mapping[str, Quantity]:
    """Return how much is meant where a resource is not asked for."""
    return cast("Mapping[str, Quantity]", legacy.defaults)


def memory(one: Resource, legacy: Legacy, unit: int = MI) -> tuple[Bytes, list[Finding]]:
    """Read memory in units; a suffix multiplies the number of units, and nothing holds that."""
    each = amount(units(legacy), one.name, unit)
    size = Bytes(one.amount * each)
    suffixed = one.text.strip()[-1:].isalpha() and one.text.strip()[-1:] in "iKMGTPE"
    if not suffixed and one.amount < _INT32:
        return size, []
    meant = one.amount // each if each else 0
    return size, [
        AMOUNT_REFUSED.at(
            one.where,
            f"{one.written}: {one.text} is a number of units of {each >> 20}Mi, not of bytes, and "
            "no GPU has as many",
            remedy=f'Write "{meant}".' if meant else None,
        )
    ]


def percent(one: Resource) -> list[Finding]:
    """Check a percentage."""
    if one.amount <= 100:
        return []
    return [
        AMOUNT_REFUSED.at(one.where, f"{one.written}: {one.text} is not a percentage from 0 to 100")
    ]


def share(
    words: Words, container: Container, legacy: Legacy, isolation: Isolation
) -> tuple[Share | None, str, list[Finding]]:
    """Read what part of each GPU a container asks for; None is a whole one to itself.

    Also tells the row of the decisions' table it is in.
    """
    have = container.resources
    usual = defaults(legacy)
    findings: list[Finding] = []
    of: Bytes | Percent = _ALL
    if words.percent in have:
        findings += percent(have[words.percent])
        of = Percent(Decimal(have[words.percent].amount))
    if words.memory in have:
        of, found = memory(have[words.memory], legacy)
        findings += found
    elif words.percent not in have and amount(usual, words.memory, 0):
        each = amount(units(legacy), words.memory, MI)
        of = Bytes(amount(usual, words.memory, 0) * each)
    cores, found = _cores(words, have, usual)
    findings += found
    if isolation is Isolation.MIG:
        return Share(of, cores, isolation), "mig", findings
    if of == _ALL:
        if cores is None or cores.value == 100:
            return None, "whole", findings
        return Share(of, cores, isolation), "cores", findings
    row = "memory" if isinstance(of, Bytes) else "percent"
    return Share(of, cores, isolation), row, findings


def _cores(
    words: Words, have: Mapping[str, Resource], usual: Mapping[str, Quantity]
) -> tuple[Percent | None, list[Finding]]:
    one = have.get(words.cores)
    asked = one.amount if one else amount(usual, words.cores, 0)
    findings = []
    if one and asked > 100:
        findings.append(
            AMOUNT_SUSPICIOUS.at(
                one.where, f"{one.written}: {one.text} percent of the cores counts as 100"
            )
        )
    return (Percent(Decimal(min(asked, 100))) if asked else None), findings


def isolation(words: Words, pod: PodView) -> tuple[Isolation, list[Finding]]:
    """Read the mode of sharing that the pod names; of several that will do, memory goes first."""
    mode = pod.annotations.get(words.mode, "")
    modes = [each.strip() for each in mode.split(",")]
    found = {_ISOLATION[each] for each in modes if each in _ISOLATION}
    if len(found) < len(set(modes)):
        return Isolation.MEMORY, [unknown_word(words.mode, mode, tuple(_ISOLATION)[1:])]
    return next(each for each in _ISOLATION.values() if each in found), []


def unknown_word(key: str, value: str, allowed: tuple[str, ...]) -> Finding:
    """Say that an annotation has none of the values it may have."""
    return WORD_UNKNOWN.at(
        annotation_path(key), f"{text(value) or 'the empty text'} is none of {', '.join(allowed)}"
    )


def selectors(words: Words, pod: PodView) -> tuple[tuple[Selector, ...], list[Finding]]:
    """Read which GPUs the pod wants by type and by identity."""
    found: list[Selector] = []
    findings = []
    for key, make, wanted in (
        (words.use_type, _type, True),
        (words.nouse_type, _type, False),
        (words.use_uuid, _uuid, True),
        (words.nouse_uuid, _uuid, False),
    ):
        if key not in pod.annotations:
            continue
        entries = tuple(entry.strip() for entry in pod.annotations[key].split(",") if entry.strip())
        if entries:
            found.append(make(entries) if wanted else Not(make(entries)))
        elif key in {words.use_uuid, words.nouse_type}:
            # No GPU is among none, and the empty text is part of every name.
            what = f"{key} names nothing, and no GPU will do"
            findings.append(WORD_UNKNOWN.at(annotation_path(key), what))
        else:
            what = f"{key} names nothing, and is no condition"
            findings.append(HINT_EMPTY.at(annotation_path(key), what))
    return tuple(found), findings


def too_few(words: Words, ask: Ask, where: str) -> list[Finding]:
    """Say where more GPUs are asked for than are named."""
    named = [s for s in ask.selectors if isinstance(s, Uuid)]
    if not named or ask.count is None or ask.count <= len(set(named[0].ids)):
        return []
    return [
        AMOUNT_REFUSED.at(
            where,
            f"{ask.count} different GPUs are asked for, and {words.use_uuid} names "
            f"{len(set(named[0].ids))}",
            remedy="Name as many GPUs as are asked for, or ask for fewer.",
        )
    ]


def _type(entries: tuple[str, ...]) -> Selector:
    # The dialect compares with "<vendor>-<model>", so the vendor's name in front says nothing.
    return ProductContains(tuple(entry.lower().removeprefix("nvidia-") for entry in entries))


def _uuid(entries: tuple[str, ...]) -> Selector:
    return Uuid(entries)
