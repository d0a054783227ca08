"""Finds the rules of a pod that a simulation does not check, but the scheduler does.

Reads the plain pod, because `drawbridge.ledger.pods` has only what decides a placement.
"""

from typing import Any

import msgspec


class _Port(msgspec.Struct, rename="camel"):
    host_port: int | None = None


class _Container(msgspec.Struct):
    ports: list[_Port] | None = None


class _Terms(msgspec.Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: list[Any] | None = None


class _Affinity(msgspec.Struct, rename="camel"):
    pod_affinity: _Terms | None = None
    pod_anti_affinity: _Terms | None = None


class _Spread(msgspec.Struct, rename="camel"):
    when_unsatisfiable: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    affinity: _Affinity | None = None
    topology_spread_constraints: list[_Spread] | None = None
    volumes: list[_Volume] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    scheduling_gates: list[Any] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec


def find_ignored_rules(pod: object) -> tuple[str, ...]:
    """Return the fields with such rules, sorted; none for what is not a pod."""
    try:
        spec = msgspec.convert(pod, _Pod).spec
    except msgspec.ValidationError:
        return ()
    affinity = spec.affinity or _Affinity()
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    spread = spec.topology_spread_constraints or ()
    rules = {
        "podAffinity": _is_required(affinity.pod_affinity),
        "podAntiAffinity": _is_required(affinity.pod_anti_affinity),
        "topologySpreadConstraints": any(
            each.when_unsatisfiable == "DoNotSchedule" for each in spread
        ),
        "volumes": any(
            each.persistent_volume_claim or each.ephemeral for each in spec.volumes or ()
        ),
        "hostPort": any(port.host_port for each in containers for port in each.ports or ()),
        "schedulingGates": bool(spec.scheduling_gates),
    }
    return tuple(sorted(name for name, is_set in rules.items() if is_set))


def _is_required(terms: _Terms | None) -> bool:
    return terms is not None and bool(terms.required_during_scheduling_ignored_during_execution)
