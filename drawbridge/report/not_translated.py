"""Tells why a pod with device requests was not translated, and what translates it."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.report import codes
from drawbridge.translate.manifests.codes import OPTED_OUT
from drawbridge.translate.opt_out import LABEL, TEXT, is_opted_out

ENFORCE: Final = "enforce"
_NODE: Final = ("spec", "nodeName")


class PodMode(NamedTuple):
    """The mode of a pod, None if it is unknown, and the rule that decided it.

    Of a pod that is not translated, `why` says so in words, and `remedy` what changes it.
    """

    mode: str | None
    rule: str | None
    why: str = ""
    remedy: str = ""


# Takes a pod; None if the labels of its namespace are not known.
FindMode = Callable[[Value], PodMode | None]


def find_no_mode(_: Value) -> PodMode | None:
    """Return that the mode of a pod is not known."""
    return None


def report_not_translated(
    pod: Value, names: Iterable[str], mode: PodMode | None, about: str
) -> Finding:
    """Report a pod that requests these names, and was not translated."""
    if is_opted_out(pod):
        return OPTED_OUT.at(LABEL, TEXT, object=about)
    message = f"requests {', '.join(dict.fromkeys(names))}"
    if mode is not None and mode.mode == ENFORCE:
        message = f"{message} and was not translated when it was created"
        return codes.NOT_TRANSLATED.at("", message, object=about, remedy=codes.ASK_WHY)
    advice = codes.ADVICE_TO_RUNNING if get_value(pod, _NODE) else codes.ADVICE_TO_WAITING
    if mode is not None:
        message = f"{message}; {mode.why}"
    return codes.NOT_TRANSLATED.at("", message, object=about, remedy=advise(advice, mode))


def advise(advice: str, mode: PodMode | None) -> str:
    """Return the advice with what translates such pods: by default, the label of the namespace."""
    return advice.format(codes.LABEL_NAMESPACE if mode is None else mode.remedy)
