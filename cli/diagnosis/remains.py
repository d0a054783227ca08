"""The check of `drawbridge doctor` for what an installation leaves behind that is gone."""

from collections.abc import Iterator, Mapping
from typing import Final

from cli.diagnosis import codes
from cli.diagnosis.checked_state import CheckedState, Result
from cli.diagnosis.left_objects import compose_command
from cli.diagnosis.unread import Unread
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.names import DUAL_LABEL, OWNED_TAINT

_MOST_NAMES: Final = 5
# kubectl names nodes without the taint as errors.
_UNTAINT: Final = f"kubectl taint nodes --all {OWNED_TAINT}-"
_UNLABEL: Final = f"kubectl label nodes -l {DUAL_LABEL} {DUAL_LABEL}-"


def check_remains(checked: CheckedState) -> Iterator[Result]:
    """Without an installation, name what still keeps pods from devices or nodes."""
    if checked.state.installed.exists:
        return
    nodes = checked.state.published["Node"]
    told: list[Result] = []
    for kind, read in checked.state.remains.items():
        if isinstance(read, Unread):
            told.append(read)
        elif read:
            told.append(_report(f"{kind} ", [*map(_name, read)], compose_command(kind, read)))
    if isinstance(nodes, Unread):
        told.append(nodes)
        nodes = []
    if tainted := [_name(each) for each in nodes if OWNED_TAINT in _taints(each)]:
        told.append(_report(f"taint {OWNED_TAINT} of ", tainted, _UNTAINT))
    if dual := [_name(each) for each in nodes if DUAL_LABEL in _labels(each)]:
        told.append(_report(f"label {DUAL_LABEL} of ", dual, _UNLABEL))
    yield from told or ["nothing of an earlier installation"]


def _report(what: str, names: list[str], command: str) -> Result:
    message = f"an installation that is gone left {what}{list_some(names, _MOST_NAMES, 'object')}"
    return codes.LEFT_BEHIND.at("", message, remedy=f"Run: {command}")


def _name(value: dict[str, Value]) -> str:
    metadata = as_mapping(value.get("metadata"))
    return "/".join(f"{metadata[key]}" for key in ("namespace", "name") if key in metadata)


def _labels(node: dict[str, Value]) -> Mapping[str, Value]:
    return as_mapping(get_value(node, ("metadata", "labels")))


def _taints(node: dict[str, Value]) -> list[Value]:
    taints = as_list(get_value(node, ("spec", "taints")))
    return [get_value(each, ("key",)) for each in taints]
