"""Joins RDMA tokens with the GPUs of the same container.

A token of the shared RDMA device plugin gave access to all network devices, shared with other pods.
A claim allocates network devices exclusively, so it requests only those near the GPUs. A number of
exclusive devices stays as it is written, and no rule says where they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from drawbridge.documents.paths import Path, format_path
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope
from drawbridge.translate.legacy.codes import MEANING_CHANGES

TOKEN = "rdma/token"  # noqa: S105  # a row of the decision table
_EXCLUSIVE: Final = ("rdma/exclusive", "rdma/network")


def join_tokens_to_gpus(asks: Sequence[Ask]) -> tuple[Ask, ...]:
    """Allocate each token jointly with the GPUs of its container, if these are one separate ask."""
    tokens = [ask for ask in asks if ask.row == TOKEN]
    if not tokens:
        return tuple(asks)
    gpus: dict[Path, dict[str, None]] = {}  # the names of the asks of each container
    for ask in asks:
        for user in ask.users if ask.kind is Kind.GPU else ():
            gpus.setdefault(user.path, {})[ask.name] = None
    joined = {ask.name: ask for ask in asks}
    for token in tokens:
        name = _find_only_name(gpus.get(user.path, {}) for user in token.users)
        if name and _can_join(joined[name]):
            joint = JointAllocation(token.name, Kind.GPU, TopologyScope.PCIE, required=False)
            joined[token.name] = replace(token, joint=joint)
            joined[name] = replace(joined[name], joint=joint)
    return tuple(joined.values())


def report_apart(asks: Iterable[Ask]) -> Iterator[Finding]:
    """Yield a finding for each ask of exclusive RDMA devices beside GPUs, without a rule."""
    listed = list(asks)
    with_gpus = {user.path for ask in listed if ask.kind is Kind.GPU for user in ask.users}
    for ask in listed:
        users = [user.path for user in ask.users if user.path in with_gpus]
        if ask.row in _EXCLUSIVE and ask.joint is None and users:
            yield MEANING_CHANGES.at(
                format_path(users[0]),
                f"{', '.join(ask.resources)} and the GPUs of the container can be far from each "
                "other; a plugin with hints, and the Topology Manager, put them on one NUMA node",
                remedy="In bridge placement, docs/placing.md shows rules that keep them together.",
            )


def _find_only_name(names_by_user: Iterable[Iterable[str]]) -> str:
    """Return the name that is the only one of all users; empty if there are several, or none."""
    only_name = ""
    for name in chain.from_iterable(names_by_user):
        if only_name and name != only_name:
            return ""
        only_name = name
    return only_name


def _can_join(ask: Ask) -> bool:
    return ask.joint is None and ask.count is not None and not ask.admin
