"""Contexts and subjects for the tests of the judge's questions."""

from collections.abc import Iterable, Mapping, Sequence

from drawbridge.cel.dra import Selectors
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import NEWEST
from drawbridge.dra.inventory import build_inventory
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeCaches, JudgeContext, build_context
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import Subject, claim_subject
from drawbridge.solver.world import World
from tests.tables import YamlValue

SELECTORS = Selectors(NEWEST)


def read_classes(classes: Mapping[str, str]) -> dict[str, DeviceClass]:
    """Read classes with one selector each."""
    by_name = {}
    for name, expression in classes.items():
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        device_class = read_class({"metadata": {"name": name}, "spec": spec})
        assert isinstance(device_class, DeviceClass), device_class
        by_name[name] = device_class
    return by_name


def class_context(classes: Mapping[str, str], selectors: Selectors = SELECTORS) -> JudgeContext:
    """Return the context of a cluster that has only classes."""
    return build_context(
        World(build_inventory(()), read_classes(classes)), caches=JudgeCaches(selectors)
    )


def findings(reported: Iterable[Finding | DeviceFinding]) -> tuple[Finding, ...]:
    """Return findings before their severity is settled."""
    return tuple(each.finding if isinstance(each, DeviceFinding) else each for each in reported)


def subject_of(requests: Sequence[YamlValue], configs: Sequence[YamlValue] = ()) -> Subject:
    """Return the claim `c` in namespace `ns` as a subject."""
    devices = {"requests": requests, "config": configs}
    claim = read_claim(
        {
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"devices": devices},
        }
    )
    assert isinstance(claim, Claim), claim
    return claim_subject(claim)
