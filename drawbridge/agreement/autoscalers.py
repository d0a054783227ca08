"""Which autoscaler adds nodes for pods, and what it does not know of claims.

An autoscaler adds a node if a pod would fit it, by a simulation of its own. Cluster Autoscaler
simulates with the plugins of kube-scheduler. Karpenter has an allocator of its own. Neither knows
the rules, owned pools and the scheduler of bridge placement. Read in Cluster Autoscaler 1.32 to
1.36 and Karpenter 1.14 and 1.15. The autoscaler of a managed cluster shows no Deployment. What each
does with the forms of claims, and what providers say of new nodes, is in `verdicts`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.coming_nodes import CAPACITY, NODE_POOL
from drawbridge.agreement.operation_codes import (
    AUTOSCALER_IGNORES_CLAIMS,
    AUTOSCALER_IGNORES_NAMES,
    AUTOSCALER_IGNORES_RULES,
    AUTOSCALER_LACKS_DEVICES,
    AUTOSCALER_LIMITS,
)
from drawbridge.agreement.verdicts import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    Form,
    Known,
    Outlook,
    Version,
    find_row,
    find_verdicts,
    judge,
    read_gates,
)
from drawbridge.config.model import Configuration, OwnedPool, Placement
from drawbridge.config.placement import owned_pools
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.names import OWNED_TAINT
from drawbridge.translate.decisions.decide import gives_devices, leaves_names

_MAX_NAMES: Final = 3
_VERSION: Final = re.compile(r":v?(\d+)\.(\d+)(?:\.\d+)?[^/]*$")
_ALWAYS: Final = (1, 35)  # the first Cluster Autoscaler that always simulates claims
# The tags of AWS for groups without nodes.
_NODE_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"
_FALSE: Final = frozenset({"false", "f", "0"})
# Findings of their own say what follows, by the configuration and the facts.
_REPORTED_APART: Final = frozenset({Form.RULES, Form.NAME})


class _Product(NamedTuple):
    """An autoscaler, and the setting that lets it simulate claims."""

    name: str
    image: re.Pattern[str]
    flag: str
    variable: str
    ignores: bool  # whether a true value lets it ignore claims
    gates: tuple[str, str] = ("", "")  # the flag and the variable with gates of its provider


_PRODUCTS: Final = (
    _Product(
        CLUSTER_AUTOSCALER,
        re.compile(r"(^|/)cluster-autoscaler[^/]*$"),
        "enable-dynamic-resource-allocation",
        "",
        ignores=False,
    ),
    _Product(
        KARPENTER,
        re.compile(r"(^|/)karpenter[^/]*(/controller)?$"),
        "ignore-dra-requests",
        "IGNORE_DRA_REQUESTS",
        ignores=True,
        gates=("aws-feature-gates", "AWS_FEATURE_GATES"),
    ),
)
_DEFAULT_PROVIDER: Final = "gce"  # of Cluster Autoscaler


class Autoscaler(NamedTuple):
    """An autoscaler that runs in the cluster, and whether it simulates claims."""

    product: str
    version: str
    object: str
    simulates_claims: bool
    setting: str  # what lets it simulate claims
    # The value of --cloud-provider; of Karpenter, the API groups of the NodeClasses.
    providers: tuple[str, ...] = ()
    gates: Mapping[str, bool] = {}  # of its provider

    def __str__(self) -> str:
        return f"{self.product} {self.version}".strip()


def find_autoscalers(
    deployments: Iterable[Value], node_groups: Iterable[Value] = ()
) -> Iterator[Autoscaler]:
    """Return the autoscalers among Deployments, by the images of their containers.

    NodePools among the node groups say for which provider Karpenter is.
    """
    path = ("spec", "template", "spec", "nodeClassRef", "group")
    pools = (each for each in node_groups if get_value(each, ("kind",)) == NODE_POOL)
    classes = sorted({f"{get_value(each, path) or ''}" for each in pools} - {""})
    for deployment in deployments:
        containers = as_list(get_value(deployment, ("spec", "template", "spec", "containers")))
        for container in map(as_mapping, containers):
            image = f"{container.get('image') or ''}".partition("@")[0]
            for product in _PRODUCTS:
                if product.image.search(image.rpartition(":")[0] or image):
                    yield _recognize(product, image, container, deployment, classes)


def _recognize(
    product: _Product,
    image: str,
    container: Mapping[str, Value],
    deployment: Value,
    classes: Sequence[str],
) -> Autoscaler:
    match = _VERSION.search(image)
    version = match[0][1:].lstrip("v") if match else ""
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    value = _read_setting(container, product.flag, product.variable).lower()
    provider = _read_setting(container, "cloud-provider", "") or _DEFAULT_PROVIDER
    if product.ignores:
        simulates = value in _FALSE
        setting = f"--{product.flag}=false"
    else:
        simulates = number >= _ALWAYS or bool(value and value not in _FALSE)
        setting = f"--{product.flag}=true, or use version 1.35 or newer"
    names = (get_value(deployment, ("metadata", key)) for key in ("namespace", "name"))
    return Autoscaler(
        product.name,
        version,
        "/".join(("Deployment", *map(str, names))),
        simulates,
        setting,
        tuple(classes) if product.name == KARPENTER else (provider,),
        dict(read_gates(_read_setting(container, *product.gates))),
    )


def _read_setting(container: Mapping[str, Value], flag: str, variable: str) -> str:
    """Return the value of a flag or a variable of the environment; empty without one."""
    words = [f"{each}" for part in ("command", "args") for each in as_list(container.get(part))]
    for number, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if flag and name == flag:
            # A flag of Go without a value is true; the value of others can be the next word.
            following = words[number + 1 : number + 2]
            bare = following[0] if following and not following[0].startswith("-") else "true"
            return value if equals else bare
    for entry in map(as_mapping, as_list(container.get("env"))):
        if variable and entry.get("name") == variable:
            return f"{entry.get('value')}"
    return ""


def report_autoscalers(
    autoscalers: Iterable[Autoscaler], configuration: Configuration, facts: Facts | None
) -> Iterator[Finding]:
    """Report what an autoscaler does not see of the pods that Drawbridge translates or leaves."""
    rows = facts.classes if facts and leaves_names(configuration) else ()
    named = [row for row in rows if row.extended and gives_devices(row)]
    for autoscaler in autoscalers:
        if not autoscaler.simulates_claims:
            yield AUTOSCALER_IGNORES_CLAIMS.at(
                "",
                f"{autoscaler} ignores claims, so it adds no node for translated pods",
                object=autoscaler.object,
                remedy=f"Set {autoscaler.setting}, or keep enough nodes for the translated pods.",
            )
        elif autoscaler.product == KARPENTER and named:
            listed = list_some([row.extended for row in named], _MAX_NAMES, "name")
            yield AUTOSCALER_IGNORES_NAMES.at(
                "",
                f"{autoscaler} waits until a device plugin serves {listed} on a new node, but "
                f"DeviceClass {named[0].name} serves it",
                object=autoscaler.object,
            )
        yield from _report_devices(autoscaler, facts)
        yield from _report_limits(autoscaler)
        if configuration.placement is Placement.BRIDGE and autoscaler.simulates_claims:
            yield AUTOSCALER_IGNORES_RULES.at(
                "",
                f"{autoscaler} simulates claims without rules, owned pools and the scheduler"
                " drawbridge",
                object=autoscaler.object,
                remedy=_describe_templates(autoscaler.product, owned_pools(configuration)),
            )


def _report_devices(autoscaler: Autoscaler, facts: Facts | None) -> Iterator[Finding]:
    for provider, outlook, drivers in _judge_drivers(autoscaler, facts):
        if outlook.when is Known.NEVER:
            wanted = outlook.wanted
            reason = f"it needs {wanted}" if wanted else "this provider does not describe them"
            yield AUTOSCALER_LACKS_DEVICES.at(
                "",
                f"{autoscaler} ({provider}) adds no node for claims on {drivers}: {reason}",
                object=autoscaler.object,
            )


def _report_limits(autoscaler: Autoscaler) -> Iterator[Finding]:
    """Report forms of claims for which no node is added, and nodes that are not removed."""
    if not autoscaler.simulates_claims:
        return
    verdicts = [
        each
        for each in find_verdicts(autoscaler.product, _read_version(autoscaler))
        if not each.serves and each.form not in _REPORTED_APART
    ]
    refused = [
        each.form.value.replace("`", "") for each in verdicts if each.form is not Form.REMOVAL
    ]
    if refused:
        message = f"{autoscaler} adds no node for claims with {' or '.join(refused)}"
        yield AUTOSCALER_LIMITS.at("", message, object=autoscaler.object)
    for verdict in verdicts:
        if verdict.form is Form.REMOVAL:
            message = f"{autoscaler} {verdict.answer}"
            remedy = "Remove such a node yourself, or set its group to fewer nodes."
            yield AUTOSCALER_LIMITS.at("", message, object=autoscaler.object, remedy=remedy)


def _read_version(autoscaler: Autoscaler) -> Version:
    return tuple(map(int, re.findall(r"\d+", autoscaler.version)[:3]))


def describe_simulation(autoscaler: Autoscaler, facts: Facts | None) -> str:
    """Say that an autoscaler simulates claims, and what it does not know of empty groups."""
    limits = [
        f"{drivers} ({provider}{f', without {outlook.wanted}' if outlook.wanted else ''})"
        for provider, outlook, drivers in _judge_drivers(autoscaler, facts)
        if outlook.when is Known.IF_A_NODE_EXISTS
    ]
    lacking = ", but adds no node to a group without nodes for claims on "
    return f"{autoscaler} simulates claims" + (lacking + "; ".join(limits) if limits else "")


def _judge_drivers(
    autoscaler: Autoscaler, facts: Facts | None
) -> Iterator[tuple[str, Outlook, str]]:
    """Yield, of each provider, the outlook for drivers with devices, and the drivers of each."""
    if facts is None or not autoscaler.simulates_claims:
        return
    version = _read_version(autoscaler)
    drivers = sorted({driver for row in facts.classes if row.devices for driver in row.drivers})
    for provider in autoscaler.providers:
        row = find_row(autoscaler.product, provider, version)
        by_outlook: dict[Outlook, list[str]] = {}
        if row is None:
            continue
        for driver in drivers:
            by_outlook.setdefault(judge(row, driver, autoscaler.gates), []).append(driver)
        for outlook, names in by_outlook.items():
            yield provider, outlook, list_some(names, _MAX_NAMES, "driver")


def _describe_templates(product: str, owned: Iterable[OwnedPool]) -> str | None:
    """Return what the templates of owned nodes need, as each product reads it."""
    marked = (each for each in owned if each.node_selector.match_labels or each.tainted)
    templates = dict.fromkeys(_describe_template(product, each) for each in marked)
    if not templates:
        return None
    where = "the NodePool" if product == KARPENTER else "the node group"
    return (
        f"Give {where} of owned nodes {' or '.join(templates)}. Use constraints of the claim "
        "instead of rules where they suffice."
    )


def _describe_template(product: str, entry: OwnedPool) -> str:
    """Return labels and taint of nodes that an entry of `ownedPools` selects."""
    labels = {f"{key}": f"{value}" for key, value in entry.node_selector.match_labels.items()}
    taint = OWNED_TAINT if entry.tainted else ""
    if product == KARPENTER:
        listed = ", ".join(f"{key}: {json.dumps(value)}" for key, value in labels.items())
        taints = f"[{{key: {taint}, effect: NoSchedule}}]" if taint else "[]"
        return f"spec.template: {{metadata: {{labels: {{{listed}}}}}, spec: {{taints: {taints}}}}}"
    tags = [f"{_NODE_TEMPLATE}/label/{key}={value}" for key, value in labels.items()]
    if taint:
        tags.append(f"{_NODE_TEMPLATE}/taint/{taint}=:NoSchedule")
    of_cluster_api = [f"{CAPACITY}/labels: {json.dumps(_pairs(labels))}"] if labels else []
    if taint:
        of_cluster_api.append(f'{CAPACITY}/taints: "{taint}=:NoSchedule"')
    return f"the tags {' '.join(tags)} (in Cluster API the annotations {', '.join(of_cluster_api)})"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
