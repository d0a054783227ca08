"""The fence around the devices of owned pools, where the nodes stay open for pods without devices.

The API server keeps it: a ValidatingAdmissionPolicy refuses every allocation from the pools that it
names which another client than the allocator of Drawbridge writes. DeviceTaintRules only keep other
schedulers from selecting what they would be refused. An administrator installs the policy and its
binding (`examples/owned-devices-policy.yaml`), and the controller writes the pools into it.

The allocator uses a pool when the API servers have known for some time that the policy names it.
The controller can be behind, and see no slice of a pool that the allocator sees. So before the
policy names a pool no more, an annotation says that the pool leaves, and the policy names it until
no allocator that writes uses it any more.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.agreement.owned_pools import (
    FENCE,
    OWNED,
    decide_node,
    decide_pool,
    find_local_pool,
)
from drawbridge.agreement.slice_limits import within_limits
from drawbridge.config.model import OwnedPool
from drawbridge.dra.inventory import PoolID, group_by_pool
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from drawbridge.names import (
    FENCE_POLICY,
    LEAVING_POOLS_ANNOTATION,
    OWNED_TAINT,
    SCHEDULER_ACCOUNT,
)

# The API server parses no longer expressions.
MOST_CHARACTERS: Final = 100_000
# Pools that go stay for a while.
MAX_CHARACTERS: Final = 90_000
# A driver of a node that is taken over publishes any number of pools. Others have a few.
MAX_CHARACTERS_OF_NODE: Final = 4_000
# No name that the API server accepts has other characters, and CEL reads these as they are.
_NAMES: Final = re.compile(r"[A-Za-z0-9./-]+")
_SELECTOR: Final = "deviceSelector"
# The names of rules.
_RULES: Final = re.compile(r"drawbridge-[0-9a-f]{32}")


def policy_spec(pools: Iterable[PoolID], namespace: str) -> dict[str, Any]:
    """Return the spec of the policy that names these pools, as the API server stores it.

    `namespace` is that of the installation. A spec that differs does not count.
    """
    account = f"system:serviceaccount:{namespace}:{SCHEDULER_ACCOUNT}"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": ["resource.k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["resourceclaims/status"],
                    "scope": "*",
                }
            ],
        },
        "matchConditions": [{"name": "allocates", "expression": _ALLOCATES}],
        "variables": [
            {"name": "pools", "expression": write_pools(pools)},
            {"name": "owned", "expression": _OWNED_RESULTS},
        ],
        "validations": [
            {
                "expression": (
                    f"size(variables.owned) == 0 || request.userInfo.username == '{account}'"
                ),
                "messageExpression": _MESSAGE,
                "reason": "Forbidden",
            }
        ],
    }


_ALLOCATES: Final = (
    "object.?status.?allocation.hasValue() && !oldObject.?status.?allocation.hasValue()"
)
_OWNED_RESULTS: Final = (
    "object.status.allocation.?devices.?results.orValue([]).filter(r,"
    " !r.?adminAccess.orValue(false) && (r.driver + '/' + r.pool) in variables.pools)"
)
_MESSAGE: Final = (
    "'only the scheduler drawbridge allocates from pool ' + variables.owned[0].pool +"
    " ' of driver ' + variables.owned[0].driver + '; request devices of other pools,"
    " or use the scheduler drawbridge'"
)
BINDING_SPEC: Final[Mapping[str, Any]] = {
    "policyName": FENCE_POLICY,
    "validationActions": ["Deny"],
}


def write_pools(pools: Iterable[PoolID]) -> str:
    """Return a list of names that is the same in CEL and in JSON."""
    return json.dumps(sorted(map(name_of_pool, pools)), separators=(",", ":"))


def name_of_pool(pool: PoolID) -> str:
    """Return how the policy names a pool. The name of a driver has no `/`."""
    return f"{pool.driver}/{pool.name}"


class _Variable(msgspec.Struct, frozen=True):
    name: str = ""
    expression: str = ""


class _PolicySpec(msgspec.Struct, frozen=True):
    variables: tuple[_Variable, ...] = ()


def read_pools(spec: Any) -> frozenset[PoolID]:  # noqa: ANN401  # JSON
    """Return the pools that a policy names; none if it is another policy."""
    try:
        variables = msgspec.convert(spec, _PolicySpec).variables
    except msgspec.MsgspecError:
        return frozenset()
    text = next((each.expression for each in variables if each.name == "pools"), "[]")
    return _read_names(text)


def _read_names(text: str) -> frozenset[PoolID]:
    try:
        names = msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return frozenset()
    split = (each.partition("/") for each in names)
    return frozenset(PoolID(driver, name) for driver, _, name in split)


def group_slices(owned: Sequence[OwnedPool], slices: Sequence[Slice]) -> dict[PoolID, list[Slice]]:
    """Return the slices of the pools of owned drivers by which `find_open_node` judges them.

    These are the slices that the allocator counts. A pool without any is judged by all of its own:
    the fence stays while a node publishes too much.
    """
    drivers = frozenset(str(each.driver) for each in owned)
    pools, counted = (
        group_by_pool(each for each in some if each.driver in drivers)
        for some in (slices, within_limits(slices))
    )
    return pools | counted


def find_open_node(
    owned: Sequence[OwnedPool],
    pool: PoolID,
    slices: Collection[Slice],
    find_node: Callable[[str], Node | None],
) -> str | None:
    """Return the node of an owned pool with these slices if it is open where rules are possible."""
    local = find_local_pool(pool, slices)
    node = find_node(local.node) if local else None
    if node is None or decide_pool(owned, pool, local, find_node) not in OWNED:
        return None
    return node.name if decide_node(owned, node.labels).by_rules else None


def without_fence(rules: Iterable[DeviceTaintRule]) -> tuple[DeviceTaintRule, ...]:
    """Return the rules that the allocator of Drawbridge obeys: the fence keeps only others away."""
    return tuple(each for each in rules if each.taint.key != OWNED_TAINT)


def fence_rules(pools: Iterable[PoolID]) -> tuple[DeviceTaintRule, ...]:
    """Return the rules of pools as other schedulers read them."""
    return tuple(
        DeviceTaintRule(rule_name(each), FENCE, TaintSelector(driver=each.driver, pool=each.name))
        for each in pools
    )


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] = {}
    generation: int = 0
    deletion_timestamp: str | None = None


class FencePart(msgspec.Struct, frozen=True):
    """The policy or its binding."""

    metadata: _Metadata = _Metadata()
    spec: Any = None


class FenceParts(NamedTuple):
    """What the fence consists of; None is missing."""

    policy: FencePart | None = None
    binding: FencePart | None = None


def read_leaving(policy: FencePart | None) -> frozenset[PoolID]:
    """Return the pools that a policy is to name no more, which nobody of ours uses."""
    annotations = policy.metadata.annotations if policy else {}
    return _read_names(annotations.get(LEAVING_POOLS_ANNOTATION, "[]"))


def find_fence_problem(parts: FenceParts, namespace: str) -> str:
    """Say why the API server does not keep the fence; empty if it does."""
    named = read_pools(parts.policy.spec) if parts.policy else ()
    for name, part, spec in (
        ("ValidatingAdmissionPolicy", parts.policy, policy_spec(named, namespace)),
        ("ValidatingAdmissionPolicyBinding", parts.binding, BINDING_SPEC),
    ):
        if part is None or part.metadata.deletion_timestamp:
            return f"{name} {FENCE_POLICY} does not exist"
        if part.spec != spec:
            return f"{name} {FENCE_POLICY} differs from examples/owned-devices-policy.yaml"
    return ""


def find_fenced_pools(parts: FenceParts, namespace: str) -> frozenset[PoolID] | None:
    """Return the pools whose allocation the API server refuses to others; None without a fence.

    Those that leave are not among them.
    """
    if parts.policy is None or find_fence_problem(parts, namespace):
        return None
    return read_pools(parts.policy.spec) - read_leaving(parts.policy)


def make_rule(pool: PoolID) -> dict[str, Any]:
    """Return the rule that keeps other schedulers from selecting the devices of a pool."""
    return {
        "metadata": {"name": rule_name(pool), "labels": {OWNED_TAINT: "pool"}},
        "spec": {
            _SELECTOR: {"driver": pool.driver, "pool": pool.name},
            "taint": {"key": FENCE.key, "effect": FENCE.effect},
        },
    }


def rule_name(pool: PoolID) -> str:
    """Return the name of the rule of a pool: a rule that selects something else has another one."""
    digest = hashlib.sha256(name_of_pool(pool).encode()).hexdigest()
    return f"drawbridge-{digest[:32]}"


def is_our_rule(rule: Mapping[str, Any]) -> bool:
    """Whether the controller made a rule: its label tells, or its name, whatever it selects."""
    metadata = rule.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return labels.get(OWNED_TAINT) == "pool" or bool(_RULES.fullmatch(metadata.get("name") or ""))


def selects_as(rule: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a rule keeps others from exactly the pool of another rule."""
    spec = rule.get("spec") or {}
    taint = {key: (spec.get("taint") or {}).get(key) for key in ("key", "effect")}
    same: bool = spec.get(_SELECTOR) == wanted["spec"][_SELECTOR]
    return same and taint == wanted["spec"]["taint"]


def find_nodes_to_taint(pools: Mapping[PoolID, str]) -> frozenset[str]:
    """Return the nodes, given by pool, whose pools the policy cannot name without harm to others.

    They need the taint whatever the rest of the cluster publishes.
    """
    sizes = _count_characters(pools)
    return frozenset(node for node, size in sizes.items() if 1 + size > MAX_CHARACTERS_OF_NODE)


def find_nodes_without_room(
    named: Collection[PoolID], nodes: Mapping[PoolID, str], wanted: Collection[PoolID]
) -> frozenset[str]:
    """Return the nodes of wanted pools that do not fit beside those that the policy names.

    Beside those that stay, they take MAX_CHARACTERS at most. `nodes` has the nodes of all these
    pools, as far as they are known. Those whose pools take most give way.
    """
    sizes = _count_characters(nodes)
    stays = {pool for pool in wanted if pool in named}
    needed = _count_characters({pool: nodes[pool] for pool in wanted if pool not in stays})
    limits = (MAX_CHARACTERS, stays), (MOST_CHARACTERS, named)
    room = min(most - len(write_pools(pools)) for most, pools in limits)
    without = set()
    for node in sorted(needed, key=lambda each: (sizes[each], each)):
        if needed[node] <= room:
            room -= needed[node]
        else:
            without.add(node)
    return frozenset(without)


def _count_characters(pools: Mapping[PoolID, str]) -> dict[str, int]:
    """Return how much of a list the pools of each node take; the list has one character more."""
    sizes: dict[str, int] = {}
    for pool, node in pools.items():
        name = name_of_pool(pool)
        size = len(name) + len('"",') if _NAMES.fullmatch(name) else MAX_CHARACTERS
        sizes[node] = sizes.get(node, 0) + size
    return sizes
