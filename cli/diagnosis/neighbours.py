"""The checks of `drawbridge doctor` of products beside Drawbridge: autoscalers and GPU Operator."""

from collections.abc import Iterable, Iterator
from typing import Final

from cli.diagnosis.checked_state import CheckedState, Result
from cli.diagnosis.unread import Unread, need
from drawbridge.agreement.autoscalers import (
    describe_simulation,
    find_autoscalers,
    report_autoscalers,
)
from drawbridge.agreement.coming_nodes import (
    NODE_POOL,
    find_coming_nodes,
    report_unexpected_nodes,
)
from drawbridge.agreement.gpu_operator import DRIVER, OperatorObjects, report_operator
from drawbridge.agreement.node_groups import report_unlike_nodes
from drawbridge.agreement.verdicts import KARPENTER
from drawbridge.config.placement import owned_pools
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.facts.families import known_families
from drawbridge.finding import Severity

_OPERATOR: Final = "/gpu-operator:"


def check_autoscalers(checked: CheckedState) -> Iterator[Result]:
    """Say which autoscaler runs, and what it does not see of translated pods."""
    neighbours = need(checked.state.neighbours)
    autoscalers = [*find_autoscalers(neighbours.deployments, neighbours.node_groups)]
    findings = [*report_autoscalers(autoscalers, checked.configuration, checked.gathered.facts)]
    if autoscalers:
        objects, families = checked.objects, known_families(checked.configuration)
        findings += report_unlike_nodes(objects.nodes, objects.slices, families)
    coming = find_coming_nodes(neighbours.node_groups)
    findings += report_unexpected_nodes(coming, checked.configuration, checked.gathered.facts)
    yield from findings
    pools = [each for each in neighbours.node_groups if each.get("kind") == NODE_POOL]
    if pools and not any(each.product == KARPENTER for each in autoscalers):
        yield Unread("there are NodePools and no Deployment of Karpenter, so its flags are unknown")
    if all(each.severity is Severity.INFO for each in findings):
        facts = checked.gathered.facts
        yield from (describe_simulation(each, facts) for each in autoscalers)


def check_gpu_operator(checked: CheckedState) -> Iterator[Result]:
    """Say what GPU Operator runs on nodes of NVIDIA's DRA driver."""
    neighbours = need(checked.state.neighbours)
    checked.need("Node", "ResourceSlice")
    labels = {
        f"{get_value(node, ('metadata', 'name'))}": {
            key: f"{text}"
            for key, text in as_mapping(get_value(node, ("metadata", "labels"))).items()
        }
        for node in need(checked.state.published["Node"])
    }
    slices = checked.objects.slices
    driver_nodes = {each.node_name for each in slices if each.driver == DRIVER and each.node_name}
    row = checked.gathered.facts.find_class(DRIVER)
    yield from report_operator(
        OperatorObjects(
            neighbours.policies, neighbours.clusters, _find_version(neighbours.deployments)
        ),
        labels,
        driver_nodes,
        None if row is None else row.extended,
        is_fenced=any(
            each.driver == DRIVER and each.tainted for each in owned_pools(checked.configuration)
        ),
    )


def _find_version(deployments: Iterable[Value]) -> str:
    for deployment in deployments:
        containers = as_list(get_value(deployment, ("spec", "template", "spec", "containers")))
        for container in map(as_mapping, containers):
            image = f"{container.get('image')}".partition("@")[0]
            _, separator, version = image.rpartition(_OPERATOR)
            if separator:
                return version.lstrip("v")
    return ""
