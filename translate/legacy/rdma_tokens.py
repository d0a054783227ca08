"""RDMA tokens beside GPUs: network devices at the places of the GPUs that the same container has.

A token gave all network devices, together with other pods; a claim takes them for one pod, so it
takes no more than what is near. Knows no driver and no shape of nodes.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from translate.legacy.asks import Ask, Joint, Kind, Scope

TOKEN = "rdma/token"  # noqa: S105  # a row of the decisions' table


def beside(asks: Sequence[Ask]) -> tuple[Ask, ...]:
    """Let each token go with the GPUs of its container, if they are one ask of their own."""
    tokens = [ask for ask in asks if ask.row == TOKEN]
    if not tokens:
        return tuple(asks)
    linked = {ask.name: ask for ask in asks}
    for token in tokens:
        users = {user.path for user in token.users}
        gpus = [
            ask
            for ask in linked.values()
            if ask.kind is Kind.GPU and users & {user.path for user in ask.users}
        ]
        if len(gpus) == 1 and _free(gpus[0]):
            joint = Joint(token.name, Kind.GPU, Scope.PCIE, required=False)
            linked[token.name] = replace(token, joint=joint)
            linked[gpus[0].name] = replace(gpus[0], joint=joint)
    return tuple(linked.values())


def _free(ask: Ask) -> bool:
    return ask.joint is None and ask.count is not None and not ask.admin
