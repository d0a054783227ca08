"""Joins RDMA tokens with the GPUs of the same container.

A token of the shared RDMA device plugin gave access to all network devices, shared with other pods.
A claim allocates network devices exclusively, so it requests only those near the GPUs.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope

TOKEN = "rdma/token"  # noqa: S105  # a row of the decision table


def join_tokens_to_gpus(asks: Sequence[Ask]) -> tuple[Ask, ...]:
    """Allocate each token jointly with the GPUs of its container, if these are one separate ask."""
    tokens = [ask for ask in asks if ask.row == TOKEN]
    if not tokens:
        return tuple(asks)
    joined = {ask.name: ask for ask in asks}
    for token in tokens:
        users = {user.path for user in token.users}
        gpus = [
            ask
            for ask in joined.values()
            if ask.kind is Kind.GPU and users & {user.path for user in ask.users}
        ]
        if len(gpus) == 1 and _can_join(gpus[0]):
            joint = JointAllocation(token.name, Kind.GPU, TopologyScope.PCIE, required=False)
            joined[token.name] = replace(token, joint=joint)
            joined[gpus[0].name] = replace(gpus[0], joint=joint)
    return tuple(joined.values())


def _can_join(ask: Ask) -> bool:
    return ask.joint is None and ask.count is not None and not ask.admin
