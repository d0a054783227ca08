"""Reads what `drawbridge doctor` checks: the cluster, the installation, and the caller's rights.

Sends GET requests, access reviews and dry runs, and so changes nothing. A part that the caller may
not read is an `Unread` with the reason, and the other parts are read anyway.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from cli.diagnosis.left_objects import read_remains
from cli.diagnosis.unread import Unread, if_readable
from cli.diagnosis.webhook_trial import TrialResult, WebhookTrial, try_webhook
from cli.input import installed_namespace, live_cluster
from cli.input.stuck_objects import StuckRead, read_stuck
from controller.field_probe import (
    FIELD_PROBES,
    interpret_rejection,
    is_field_stored,
    probe_template,
)
from drawbridge.agreement.scope import Mode, ScopeRule, decide_namespace_scope, with_name
from drawbridge.agreement.switch import is_switched_off
from drawbridge.agreement.webhook_selectors import PodWebhook, read_pod_webhook
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONTROLLER_DEPLOYMENT,
    CONTROLLER_LEASE,
    DUAL_LABEL,
    FACTS_CONFIG_MAP,
    JUDGE_CONFIGURATION,
    JUDGE_DEPLOYMENT,
    SCHEDULER_DEPLOYMENT,
    SCHEDULER_LEASE,
    WEBHOOK_CONFIGURATION,
    WEBHOOK_DEPLOYMENT,
)

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

T = TypeVar("T")
Object = Mapping[str, Value]
# The Deployments of autoscalers and of GPU Operator, by the labels of their charts and examples.
_NEIGHBOUR_NAMES: Final = (
    "aws-cluster-autoscaler,azure-cluster-autoscaler,cluster-autoscaler,"
    "clusterapi-cluster-autoscaler,gce-cluster-autoscaler,gpu-operator,karpenter"
)
_NEIGHBOURS: Final = (
    f"app.kubernetes.io/name in ({_NEIGHBOUR_NAMES})",
    f"app in ({_NEIGHBOUR_NAMES})",
)
_NEIGHBOUR_KINDS: Final = (
    resources.CLUSTER_POLICIES,
    resources.GPU_CLUSTERS,
    resources.MACHINE_DEPLOYMENTS,
    resources.MACHINE_POOLS,
    resources.NODE_POOLS,
)
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(NamedTuple):
    """A permission that commands need; with `namespaced`, in the namespace of the caller."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespaced: bool = False

    def __str__(self) -> str:
        """Describe the right as `kubectl auth can-i` takes it."""
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{f'/{self.name}' if self.name else ''}"


class Purpose(NamedTuple):
    """What a person does with several rights, and the role that has them."""

    text: str
    role: str
    rights: tuple[Right, ...]


_DRA: Final = "resource.k8s.io"
# Who may edit the configuration operates the installation (Role drawbridge-admin).
_OPERATE: Final = Right("update", "", "configmaps", CONFIGURATION_CONFIG_MAP, namespaced=True)
_DEPLOYMENTS: Final = (
    WEBHOOK_DEPLOYMENT,
    CONTROLLER_DEPLOYMENT,
    JUDGE_DEPLOYMENT,
    SCHEDULER_DEPLOYMENT,
)
PURPOSES: Final = (
    Purpose(
        "read devices of the cluster with config facts, simulate, audit, check and translate",
        "ClusterRole drawbridge-reader; to translate and check manifests of your namespace as"
        " admission does, Role drawbridge-reader is enough",
        (
            Right("list", "", "nodes"),
            Right("list", "", "namespaces"),
            Right("list", _DRA, "deviceclasses"),
            Right("list", _DRA, "resourceslices"),
            Right("list", _DRA, "resourceclaims"),
            Right("list", _DRA, "resourceclaimtemplates"),
        ),
    ),
    Purpose(
        "explain pods",
        "ClusterRole view",
        (
            Right("get", "", "pods", namespaced=True),
            Right("get", _DRA, "resourceclaims", namespaced=True),
            Right("get", _DRA, "resourceclaimtemplates", namespaced=True),
            Right("list", "events.k8s.io", "events", namespaced=True),
        ),
    ),
    Purpose(
        "apply translated manifests",
        "ClusterRole edit",
        (
            Right("create", "", "pods", namespaced=True),
            Right("create", _DRA, "resourceclaimtemplates", namespaced=True),
        ),
    ),
)


@dataclass(frozen=True)
class Installed:
    """The objects of the installation. None: the object does not exist."""

    namespace: str
    mutating: Object | Unread | None
    validating: Object | Unread | None
    judge: Object | Unread | None
    facts: Object | Unread | None
    lease: Object | Unread | None  # of the controller
    scheduler_lease: Object | Unread | None
    deployments: Mapping[str, Object | Unread | None]

    @property
    def exists(self) -> bool:
        """Whether any object of the manifests exists, or may exist.

        What the processes write outlives them in their namespace, and says nothing.
        """
        registrations = (self.mutating, self.validating, self.judge)
        return any(each is not None for each in (*registrations, *self.deployments.values()))


class Neighbours(NamedTuple):
    """Objects of other products: Deployments, ClusterPolicies, GPUClusters, and node groups."""

    deployments: Sequence[dict[str, Value]]
    policies: Sequence[dict[str, Value]]
    clusters: Sequence[dict[str, Value]]
    node_groups: Sequence[dict[str, Value]]


@dataclass(frozen=True)
class ClusterState:
    """Everything that the checks need."""

    version: str
    now: float  # Unix time of the API server
    namespace: str  # of the caller
    published: Mapping[str, list[dict[str, Value]] | Unread]  # by kind
    labelled: Mapping[
        str, list[dict[str, Value]] | Unread
    ]  # pods of nodes with the dual label or a plugin that is gone
    stored_fields: tuple[str, ...] | Unread
    namespaces: Mapping[str, Mapping[str, str]] | Unread
    installed: Installed
    trial: WebhookTrial | None
    missing_rights: Mapping[str, tuple[Right, ...]]  # by purpose
    operates: bool  # whether the caller may change the installation
    neighbours: Neighbours | Unread
    kueue: Object | Unread | None = None  # the ConfigMap with its configuration
    cluster_queues: Sequence[dict[str, Value]] | Unread = ()
    waiting_pods: Sequence[dict[str, Value]] | Unread = ()  # without a node, in bridge placement
    stuck: StuckRead | Unread = field(default_factory=StuckRead)
    # By kind, what was made for an installation that is gone.
    remains: Mapping[str, list[dict[str, Value]] | Unread] = field(default_factory=dict)


async def read_state(
    session: "Session", options: argparse.Namespace, configuration: Configuration
) -> ClusterState:
    """Read all parts; raises ApiError if the server cannot be reached."""
    version = await session.version()
    namespace = options.namespace or session.namespace
    kinds = (resources.NODES, resources.CLASSES, resources.SLICES, resources.CLAIMS)
    published = {kind.kind: await _list(session, kind) for kind in kinds}
    namespaces = await _read_namespaces(session, namespace)
    bridge = configuration.placement is Placement.BRIDGE
    installed = await _read_installed(session, bridge=bridge)
    trial = None
    if isinstance(installed.mutating, dict) and not _is_switched_off(installed.mutating):
        webhook = read_pod_webhook(installed.mutating)
        trial = await _try_webhook(session, options.namespace, namespaces, configuration, webhook)
    return ClusterState(
        version=version,
        now=session.clock.now(),
        namespace=namespace,
        published=published,
        labelled={
            name: await _list(session, resources.PODS, fields=f"spec.nodeName={name}")
            for name in _find_held_nodes(published)[:_MOST_NODES]
        },
        stored_fields=await _probe_fields(session, namespace),
        namespaces=namespaces,
        installed=installed,
        trial=trial,
        missing_rights=await _find_missing_rights(session, namespace),
        operates=await _is_allowed(session, _OPERATE, installed.namespace),
        kueue=await _read_kueue(session, namespaces),
        cluster_queues=await _list(session, resources.CLUSTER_QUEUES),
        neighbours=await _read_neighbours(session),
        waiting_pods=await _list(session, resources.PODS, fields="spec.nodeName=")
        if bridge
        else (),
        stuck=await if_readable(_read_stuck(session, published), "list", resources.CLAIMS),
        remains={} if installed.exists else await read_remains(session),
    )


async def _list(
    session: "Session", kind: Resource, *, fields: str = "", labels: str = ""
) -> list[dict[str, Value]] | Unread:
    """List objects of all namespaces, or say why they are not read."""
    listing = live_cluster.list_objects(session, kind, fields=fields, labels=labels)
    return await if_readable(listing, "list", kind)


async def _read(
    session: "Session", kind: Resource, name: str, namespace: str = ""
) -> Object | Unread | None:
    """Read an object, None if it does not exist, or say why it is not read."""
    reading = live_cluster.read_object(session, kind, name, namespace)
    return await if_readable(reading, "get", kind)


async def _read_stuck(
    session: "Session", published: Mapping[str, list[dict[str, Value]] | Unread]
) -> StuckRead | Unread:
    """Return what is stuck; the reason why not if a kind may not be read."""
    unread = [each for each in published.values() if isinstance(each, Unread)]
    if unread:
        return unread[0]
    lists = (each for each in published.values() if not isinstance(each, Unread))
    return await read_stuck(session, [value for values in lists for value in values])


def _is_switched_off(registration: Object) -> bool:
    """Whether the API server calls no webhook, so that a trial tells nothing."""
    listed = as_list(registration.get("webhooks"))
    return any(isinstance(each, dict) and is_switched_off(each) for each in listed)


async def _read_kueue(
    session: "Session", namespaces: Mapping[str, Mapping[str, str]] | Unread
) -> Object | Unread | None:
    """Read the configuration of Kueue; None if its namespace does not exist."""
    if isinstance(namespaces, Unread) or KUEUE not in namespaces:
        return None
    return await _read(session, resources.CONFIG_MAPS, KUEUE_CONFIG_MAP, KUEUE)


async def _read_neighbours(session: "Session") -> Neighbours | Unread:
    """Read the Deployments of autoscalers and of GPU Operator, and the objects of both."""
    deployments: dict[str, dict[str, Value]] = {}
    for selector in _NEIGHBOURS:
        listed = await _list(session, resources.DEPLOYMENTS, labels=selector)
        if isinstance(listed, Unread):
            return listed
        deployments |= {f"{get_value(each, ('metadata', 'uid'))}": each for each in listed}
    others: list[list[dict[str, Value]]] = []
    for kind in _NEIGHBOUR_KINDS:
        served = await if_readable(live_cluster.list_if_served(session, kind), "list", kind)
        if isinstance(served, Unread):
            return served
        others.append(served)
    policies, clusters, *groups = others
    return Neighbours([*deployments.values()], policies, clusters, [*chain.from_iterable(groups)])


async def _read_namespaces(
    session: "Session", own: str
) -> Mapping[str, Mapping[str, str]] | Unread:
    """Return the labels of all namespaces, or of the caller's if that is all that is allowed."""
    kind = resources.NAMESPACES
    namespaces = await _list(session, kind)
    if isinstance(namespaces, Unread):
        namespace = await _read(session, kind, own)
        if not isinstance(namespace, dict):
            return namespaces
        namespaces = [namespace]
    named = ((get_value(each, ("metadata", "name")), each) for each in namespaces)
    return {f"{name}": _labels(each) for name, each in named}


def _find_held_nodes(published: Mapping[str, list[dict[str, Value]] | Unread]) -> list[str]:
    """Return the nodes on which pods can hold devices of a plugin that claims could get.

    Those with the label come first, then those whose kubelet knows the name of a plugin that is
    gone, then all others with slices.
    """
    nodes, slices = published["Node"], published["ResourceSlice"]
    if isinstance(nodes, Unread):
        return []
    publishing = [] if isinstance(slices, Unread) else slices
    names = {get_value(each, ("spec", "nodeName")) for each in publishing}
    listed = (each for each in nodes if get_value(each, ("metadata", "name")) in names)
    dual = (each for each in nodes if DUAL_LABEL in _labels(each))
    ordered = _names_of((*dual, *sorted(listed, key=_lacks_gone_plugin)))
    return [*dict.fromkeys(ordered)]


def _lacks_gone_plugin(node: Object) -> bool:
    """Whether no name of a plugin that is gone is left; such nodes come last."""
    amounts = as_mapping(get_value(dict(node), ("status", "allocatable")))
    return not any("/" in name and f"{amount}" == "0" for name, amount in amounts.items())


def _names_of(nodes: Iterable[Object]) -> Iterator[str]:
    return (f"{get_value(dict(node), ('metadata', 'name'))}" for node in nodes)


def _labels(value: Object) -> Mapping[str, str]:
    labels = as_mapping(get_value(dict(value), ("metadata", "labels")))
    return {key: f"{text}" for key, text in labels.items()}


async def _read_installed(session: "Session", *, bridge: bool) -> Installed:
    read = partial(_read, session)
    mutating = await read(resources.MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
    validating = await read(resources.VALIDATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
    registrations = (each for each in (mutating, validating) if isinstance(each, dict))
    namespace = installed_namespace.of_registration(next(registrations, None))
    return Installed(
        namespace=namespace,
        mutating=mutating,
        validating=validating,
        judge=await read(resources.VALIDATING_WEBHOOKS, JUDGE_CONFIGURATION),
        facts=await read(resources.CONFIG_MAPS, FACTS_CONFIG_MAP, namespace),
        lease=await read(resources.LEASES, CONTROLLER_LEASE, namespace),
        scheduler_lease=await read(resources.LEASES, SCHEDULER_LEASE, namespace)
        if bridge
        else None,
        deployments={
            name: await read(resources.DEPLOYMENTS, name, namespace) for name in _DEPLOYMENTS
        },
    )


async def _probe_fields(session: "Session", namespace: str) -> tuple[str, ...] | Unread:
    """Return the fields of claims that the API server stores, as the controller probes them."""
    stored = []
    for name, probe in sorted(FIELD_PROBES.items()):
        try:
            response = await session.call(
                "POST",
                resources.TEMPLATES.path(namespace),
                query={"dryRun": "All"},
                body=probe_template(probe),
            )
        except ApiError as error:
            stored_by = interpret_rejection(probe, error)
            if error.forbidden and not stored_by:
                return Unread(f"you may not create {resources.TEMPLATES.plural}", is_forbidden=True)
            if stored_by is None:
                return Unread(error.message)
            stored += [name] * stored_by
            continue
        stored += [name] * is_field_stored(
            probe, msgspec.json.decode(response, type=dict[str, Any])
        )
    return tuple(stored)


async def _try_webhook(
    session: "Session",
    chosen: str | None,
    namespaces: Mapping[str, Mapping[str, str]] | Unread,
    configuration: Configuration,
    webhook: PodWebhook,
) -> WebhookTrial:
    """Try the webhook in the chosen namespace, or in the first one where pods are translated."""
    readable = {} if isinstance(namespaces, Unread) else namespaces
    scopes = {
        name: decide_namespace_scope(name, labels, configuration.scope, webhook)
        for name, labels in sorted(readable.items())
        if chosen in (None, name)
    }
    enforced = [name for name, each in scopes.items() if each.mode is Mode.ENFORCE]
    if not enforced:
        where = f"namespace {chosen} is not" if chosen else "no namespace is"
        detail = f"{where} in mode enforce"
        is_report = any(each.mode is Mode.REPORT for each in scopes.values())
        if not is_report and any(each.rule is ScopeRule.NOT_CALLED for each in scopes.values()):
            where = chosen or "any namespace in scope"
            detail = f"the API server does not call the webhook for pods of {where}"
        return WebhookTrial(TrialResult.UNKNOWN, "", "", detail)
    if not any(webhook.selects(with_name(name, readable[name]), {}) for name in enforced):
        detail = "the objectSelector of the webhook does not select the sample pod, without labels"
        return WebhookTrial(TrialResult.UNKNOWN, "", "", detail)
    right = Right("create", "", "pods", namespaced=True)
    for name in enforced[:_MOST_NAMESPACES]:
        if await _is_allowed(session, right, name):
            return await try_webhook(session, name)
    detail = f"you may not create pods in {', '.join(enforced[:_MOST_NAMESPACES])}"
    return WebhookTrial(TrialResult.UNKNOWN, "", "", detail)


_MOST_NAMESPACES: Final = 10
# Where the manifests of Kueue put its configuration.
KUEUE: Final = "kueue-system"
KUEUE_CONFIG_MAP: Final = "kueue-manager-config"
_MOST_NODES: Final = 20


async def _find_missing_rights(
    session: "Session", namespace: str
) -> Mapping[str, tuple[Right, ...]]:
    missing = {}
    for purpose in PURPOSES:
        refused = [
            right for right in purpose.rights if not await _is_allowed(session, right, namespace)
        ]
        missing[purpose.text] = tuple(refused)
    return missing


async def _is_allowed(session: "Session", right: Right, namespace: str) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "name": right.name,
        "namespace": namespace if right.namespaced else "",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    response = await session.call("POST", _REVIEWS, body=review)
    return get_value(msgspec.json.decode(response), ("status", "allowed")) is True
