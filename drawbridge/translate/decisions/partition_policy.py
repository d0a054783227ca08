"""Applies Koordinator's partition policy of nodes to the GPUs of its pods.

On nodes with the label `node.koordinator.sh/gpu-partition-policy: Honor`, Koordinator allocates
only GPUs of one partition, and refuses numbers of GPUs that no partition has. A claim does not see
the label, so the request itself must follow the policy.
"""

from typing import Final

from msgspec.structs import replace

from drawbridge.documents.paths import format_path
from drawbridge.dra.families import GPU
from drawbridge.facts.model import Facts, PartitionPolicy
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Colocation, Kind, PodRequests, TopologyScope
from drawbridge.translate.legacy.codes import AMOUNT_REFUSED, MEANING_CHANGES

_DIALECT: Final = "koordinator/"
_SIZES: Final = (1, 2, 4, 8)


def apply_partition_policy(requests: PodRequests, facts: Facts | None) -> PodRequests:
    """Keep the GPUs of each ask in one partition, or report why they cannot be."""
    policy = _find_policy(facts)
    if policy is PartitionPolicy.PREFER:
        return requests
    asks, findings = [], list(requests.findings)
    for ask in requests.asks:
        several = ask.kind is Kind.GPU and ask.row.startswith(_DIALECT) and ask.count != 1
        if several and policy is PartitionPolicy.HONOR:
            findings += _check_size(ask)
            asks.append(replace(ask, colocation=Colocation(TopologyScope.LINK)))
        else:
            findings += _report_mixed(ask) if several else ()
            asks.append(ask)
    return replace(requests, asks=tuple(asks), findings=tuple(findings))


def _find_policy(facts: Facts | None) -> PartitionPolicy:
    """Return the policy of the nodes with GPUs, as far as all of them agree."""
    policies = (
        {each.partition_policy for each in facts.drivers if each.kind == GPU} if facts else ()
    )
    if not policies:
        return PartitionPolicy.PREFER
    return policies.pop() if len(policies) == 1 else PartitionPolicy.MIXED


def _check_size(ask: Ask) -> tuple[Finding, ...]:
    if ask.share is not None:
        why = f"shares of {ask.count} GPUs requested, but a GPU partition has shares of 1 GPU only"
    elif ask.count not in _SIZES:
        why = f"{ask.count} GPUs requested, but a GPU partition has 1, 2, 4 or 8 GPUs"
    else:
        return ()
    message = f"{', '.join(ask.resources)}: {why}, and all nodes with GPUs honor their partitions"
    return (AMOUNT_REFUSED.at(format_path(ask.users[0].path), message),)


def _report_mixed(ask: Ask) -> tuple[Finding, ...]:
    if ask.colocation and ask.colocation.scope is TopologyScope.LINK and ask.colocation.required:
        return ()
    message = (
        f"{', '.join(ask.resources)}: some nodes honor their GPU partitions, but the claim may "
        "allocate GPUs of several partitions there"
    )
    remedy = (
        "Set the annotation scheduling.koordinator.sh/gpu-partition-spec to "
        '{"allocatePolicy": "Restricted"}.'
    )
    return (MEANING_CHANGES.at(format_path(ask.users[0].path), message, remedy=remedy),)
