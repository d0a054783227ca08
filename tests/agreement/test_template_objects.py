"""What a template lost or got on its way into the API server, and who is said to do so."""

import copy

from drawbridge.agreement.template_objects import build_object, find_changed_field
from drawbridge.translate.changes.template import make_template
from tests.tables import YamlValue, every_row

EXACTLY = {"deviceClassName": "gpu.nvidia.com", "count": 2, "capacity": {"requests": {"m": "1Gi"}}}
SENT = make_template(
    {"devices": {"requests": [{"name": "gpu", "exactly": EXACTLY}]}}, labels={"a": "b"}
)
REQUEST = "spec.spec.devices.requests[0]"


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
        (("spec",), {"spec": {}, "metadata": {}}, "ClaimFieldDropped", "spec.spec.devices"),
        (
            ("exactly",),
            {"capacity": None, "count": 1, "adminAccess": True},
            "ClaimFieldDropped",
            f"{REQUEST}.exactly.capacity",
        ),
    ],
)
def test_what_is_not_stored_as_sent_is_named(
    place: tuple[str, ...], change: YamlValue, code: str, path: str
) -> None:
    stored: YamlValue = copy.deepcopy(build_object(SENT, "team"))
    at = stored
    for name in place:
        at = at["spec"]["spec"]["devices"]["requests"][0][name] if name == "exactly" else at[name]
    at.update(change)
    finding = find_changed_field(stored, SENT)
    told = (finding.code, finding.path) if finding else ("", "")
    assert told == (code, path)
    assert finding is None or path in finding.message
