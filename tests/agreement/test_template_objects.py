"""What a template lost or got on its way into the API server, and who is said to do so."""

import copy

from drawbridge.agreement.template_objects import build_object, find_changed_field
from drawbridge.translate.changes.template import make_template
from tests.tables import YamlValue, every_row

CAPACITY = {"requests": {"m": "1Gi"}}
TOLERATION = {"key": "a", "operator": "Equal", "value": "v"}
EXACTLY = {
    "deviceClassName": "gpu.nvidia.com",
    "count": 2,
    "capacity": CAPACITY,
    "tolerations": [TOLERATION],
    "selectors": [{"cel": {"expression": "true"}}],
}
CHOICE = {"name": "one", "deviceClassName": "gpu.nvidia.com", "capacity": CAPACITY}
SENT = make_template(
    {
        "devices": {
            "requests": [
                {"name": "gpu", "exactly": EXACTLY},
                {"name": "any", "firstAvailable": [CHOICE]},
            ],
            "constraints": [{"requests": ["gpu"], "distinctAttribute": "a.example.com/b"}],
        }
    },
    labels={"a": "b"},
)
DEVICES = "spec.spec.devices"
REQUEST = f"{DEVICES}.requests[0]"
CHOSEN = f"{DEVICES}.requests[1].firstAvailable"
SPARE = {"key": "spot", "operator": "Exists"}


@every_row(
    ("place", "change", "code", "path"),
    [
        (("spec",), {"metadata": {}}, "", ""),
        (("spec",), {"metadata": {"creationTimestamp": None}}, "", ""),
        (("metadata", "labels"), {"team": "x"}, "", ""),
        (("metadata", "labels"), {"a": "x"}, "TemplateChanged", "metadata"),
        (
            ("spec",),
            {"metadata": {"labels": {"x.io/cost": "1"}}},
            "TemplateChanged",
            "spec.metadata",
        ),
        (("exactly",), {"count": 1}, "TemplateChanged", f"{REQUEST}.exactly.count"),
        (("exactly",), {"adminAccess": True}, "TemplateChanged", f"{REQUEST}.exactly.adminAccess"),
        (("exactly",), {"capacity": None}, "ClaimFieldDropped", f"{REQUEST}.exactly.capacity"),
        (
            ("exactly",),
            {"capacity": None, "tolerations": None},
            "ClaimFieldDropped",
            f"{REQUEST}.exactly.capacity",
        ),
        (("choice",), {"capacity": None}, "ClaimFieldDropped", f"{CHOSEN}[0].capacity"),
        (("requests", 1), {"firstAvailable": None}, "ClaimFieldDropped", CHOSEN),
        (
            ("constraints", 0),
            {"distinctAttribute": None},
            "ClaimFieldDropped",
            f"{DEVICES}.constraints[0].distinctAttribute",
        ),
        # What has no gate, a part of a field, and what comes with another change is not dropped.
        (("spec",), {"spec": {}, "metadata": {}}, "TemplateChanged", DEVICES),
        (("exactly",), {"selectors": None}, "TemplateChanged", f"{REQUEST}.exactly.selectors"),
        (
            ("constraints", 0),
            {"requests": None},
            "TemplateChanged",
            f"{DEVICES}.constraints[0].requests",
        ),
        (
            ("exactly",),
            {"tolerations": [SPARE, TOLERATION]},
            "TemplateChanged",
            f"{REQUEST}.exactly.tolerations[0].operator",
        ),
        (
            ("exactly",),
            {"capacity": None, "count": 1, "adminAccess": True},
            "TemplateChanged",
            f"{REQUEST}.exactly.count",
        ),
        (
            ("exactly",),
            {"allocationMode": "All", "count": None},
            "TemplateChanged",
            f"{REQUEST}.exactly.count",
        ),
    ],
)
def test_what_is_not_stored_as_sent_is_named(
    place: tuple[str | int, ...], change: YamlValue, code: str, path: str
) -> None:
    """A value of None is a field that is not stored."""
    stored: YamlValue = copy.deepcopy(build_object(SENT, "team"))
    devices = stored["spec"]["spec"]["devices"]
    places = {
        "exactly": devices["requests"][0]["exactly"],
        "choice": devices["requests"][1]["firstAvailable"][0],
        "requests": devices["requests"],
        "constraints": devices["constraints"],
    }
    at = stored
    for name in place:
        at = places[name] if name in places else at[name]
    at.update(change)
    for name in [name for name, value in at.items() if value is None]:
        del at[name]
    finding = find_changed_field(stored, SENT)
    told = (finding.code, finding.path) if finding else ("", "")
    assert told == (code, path)
    assert finding is None or path in finding.message
