"""Scenario: what Kueue's manager charges for claims of each form, that users bring themselves."""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from e2e.installed.installation import wait_for_facts
from e2e.queues.manager import LABEL
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.queues import (
    GPU,
    GPU_CLASS,
    QUEUE,
    QUOTA,
    SECONDS,
    apply,
    conditions,
    is_gated,
    make_queue,
    queue_scenario,
    start,
    wait_charged,
)
from e2e.scenarios.stage import Stage

NIC, NIC_CLASS = "example.com/nic", "dra.net"
MAPPINGS: Final = (
    {"name": GPU, "deviceClassNames": [GPU_CLASS]},
    {"name": NIC, "deviceClassNames": [NIC_CLASS]},
)


class Asked(NamedTuple):
    """A claim, and what Kueue charges for it; or a part of the message with which it refuses it."""

    spec: JSON
    charged: Mapping[str, str] = {}
    refused: str = ""


def _alternatives() -> JSON:
    choices = [
        {"name": "two", "deviceClassName": GPU_CLASS, "count": 2},
        {"name": "one", "deviceClassName": GPU_CLASS},
    ]
    return {"name": "gpu", "firstAvailable": choices}


def _joint() -> JSON:
    near = {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["gpu", "nic"]}
    requests = request("gpu", GPU_CLASS), request("nic", NIC_CLASS)
    return claim_spec(*requests, constraints=[near])


def _named(name: str, **fields: object) -> JSON:
    return claim_spec(request(name, GPU_CLASS, **fields))


CLAIMS: Final[Mapping[str, Asked]] = {
    "count": Asked(_named("gpu", count=2), {GPU: "2"}),
    "joint": Asked(_joint(), {GPU: "1", NIC: "1"}),
    "alternatives": Asked(claim_spec(_alternatives()), refused="FirstAvailable"),
    "all": Asked(_named("gpu", allocationMode="All"), refused="AllocationMode 'All'"),
    "by-name": Asked(_named("gpu"), refused="not supported"),
}


@queue_scenario
def claims_of_each_form_are_charged_or_refused(stage: Stage) -> None:
    """A number and near devices are charged; alternatives, all and a named claim are not."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full", NIC_CLASS: None})
    cluster = start(stage, MAPPINGS)
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    make_queue(stage, {GPU: QUOTA, NIC: QUOTA})
    for name, asked in CLAIMS.items():
        if name == "by-name":
            stage.claim(name, asked.spec)
            body = stage.pod_object(name, claims={"devices": name})
        else:
            stage.template(name, asked.spec)
            body = stage.pod_object(name, templates={"devices": name})
        body["metadata"]["labels"] |= {LABEL: QUEUE}
        apply(stage, cluster, body).check()
        if asked.refused:
            says = partial(_says, stage, name, asked.refused)
            stage.wait(f"Kueue refuses {name}", says, SECONDS)
            assert is_gated(stage, name)
        else:
            assert wait_charged(stage, name) == asked.charged, name


def _says(stage: Stage, name: str, part: str) -> bool:
    return part in conditions(stage, name)
