"""Joins RDMA tokens with the GPUs of the same container.

A token of the shared RDMA device plugin gave access to all network devices, shared with other pods.
A claim allocates network devices exclusively, so it requests only those near the GPUs.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from drawbridge.documents.paths import Path
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope

TOKEN = "rdma/token"  # noqa: S105  # a row of the decision table


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
