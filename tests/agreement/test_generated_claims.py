"""What a generated claim lacks of its template, and what others may add to it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from drawbridge.agreement.generated_claims import find_lost_field
from drawbridge.ledger.generated_claims import POD_CLAIM
from drawbridge.names import RULES_ANNOTATION
from drawbridge.translate.changes.template import make_template
from tests.tables import every_row

EXACTLY = {
    "deviceClassName": "gpu.nvidia.com",
    "capacity": {"requests": {"memory": "8192Mi"}},
    "tolerations": [{"key": "a", "value": "v"}, {"key": "b", "operator": "Exists"}],
    "selectors": [{"cel": {"expression": "true"}}],
}
CHOICES = [{"name": name, "deviceClassName": name, "count": 2} for name in ("one", "two")]
TEMPLATE: Any = make_template(
    {
        "devices": {
            "requests": [
                {"name": "gpu", "exactly": EXACTLY},
                {"name": "any", "firstAvailable": CHOICES},
            ],
            "constraints": [{"requests": ["gpu"], "distinctAttribute": "a.example.com/b"}],
            "config": [{"opaque": {"driver": "d", "parameters": {"a": [], "b": None}}}],
        }
    },
    claim_annotations={RULES_ANNOTATION: "{}"},
)


class Parts:
    """A claim of the template, and the parts of it that a case changes."""

    def __init__(self) -> None:
        self.claim = copy.deepcopy(TEMPLATE.object["spec"])
        self.annotations = self.claim["metadata"]["annotations"]
        self.annotations[POD_CLAIM] = "drawbridge"
        self.devices = self.claim["spec"]["devices"]
        self.gpu, self.any = self.devices["requests"]
        self.exactly = self.gpu["exactly"]


KEPT: dict[str, Callable[[Parts], object]] = {
    "nothing is changed": lambda _: None,
    "a default is filled in": lambda of: of.exactly.update(newer={"a": 1}, adminAccess=False),
    "an amount is written in another way": lambda of: of.exactly.update(
        capacity={"requests": {"memory": "8Gi"}}
    ),
    "a default is not filled in": lambda of: of.exactly.pop("count"),
    "an amount is added": lambda of: of.exactly["capacity"]["requests"].update(cores="1"),
    "a toleration is added in front": lambda of: of.exactly["tolerations"].insert(
        0, {"key": "c", "operator": "Exists"}
    ),
    "a request is added in front": lambda of: of.devices["requests"].insert(
        0, {"name": "more", "exactly": {"deviceClassName": "x"}}
    ),
    "a request behind another one has a default": lambda of: (
        of.devices["requests"].reverse(),
        of.exactly.update(newer=True),
    ),
    "labels are added": lambda of: of.claim["metadata"].update(labels={"a": "b"}),
    "a constraint is added": lambda of: of.devices["constraints"].append({"matchAttribute": "a"}),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_claim_that_has_what_its_template_says_is_as_described(case: str) -> None:
    parts = Parts()
    KEPT[case](parts)
    assert find_lost_field(TEMPLATE.object, parts.claim) == ""


_GPU = "spec.devices.requests[0].exactly"
_ANY = "spec.devices.requests[1]"
LOST: list[tuple[str, Callable[[Parts], object]]] = [
    (f"{_GPU}.capacity", lambda of: of.exactly.pop("capacity")),
    (f"{_GPU}.capacity.requests.memory", lambda of: of.exactly.update(capacity={"requests": {}})),
    (f"{_GPU}.tolerations", lambda of: of.exactly.pop("tolerations")),
    (f"{_GPU}.tolerations", lambda of: of.exactly.update(tolerations=[])),
    (f"{_GPU}.tolerations[1]", lambda of: of.exactly["tolerations"].pop()),
    (f"{_GPU}.count", lambda of: of.exactly.update(count=2)),
    (
        f"{_GPU}.allocationMode",
        lambda of: (of.exactly.pop("count"), of.exactly.update(allocationMode="All")),
    ),
    ("spec.devices.requests[0]", lambda of: of.devices["requests"].pop(0)),
    (f"{_ANY}.firstAvailable", lambda of: of.any.pop("firstAvailable")),
    (f"{_ANY}.firstAvailable[1].count", lambda of: of.any["firstAvailable"][1].update(count=1)),
    (
        "spec.devices.constraints[0].distinctAttribute",
        lambda of: of.devices["constraints"][0].pop("distinctAttribute"),
    ),
    (
        "spec.devices.config[0].opaque.parameters",
        lambda of: of.devices["config"][0]["opaque"]["parameters"].update(a=[1]),
    ),
    ("spec.devices", lambda of: of.claim.update(spec=None)),
    (f"metadata.annotations[{RULES_ANNOTATION}]", lambda of: of.annotations.pop(RULES_ANNOTATION)),
]


@every_row(("path", "change"), LOST)
def test_what_a_claim_lacks_is_named(path: str, change: Callable[[Parts], object]) -> None:
    parts = Parts()
    change(parts)
    assert find_lost_field(TEMPLATE.object, parts.claim) == path
