"""A legacy request gets admin access only if the configuration and the namespace allow it."""

from drawbridge.config.model import Configuration, Decisions, Placement
from drawbridge.facts.model import ClassFacts, Cluster, Driver, Facts, ResourceFacts
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row

NAME = "gpu.intel.com/i915_monitoring"
POD: YamlValue = {
    "spec": {"containers": [{"name": "main", "resources": {"limits": {NAME: 1}}}]},
}


def facts(*, plugin: bool = False) -> Facts:
    """A cluster with Intel's driver, and its device plugin if wanted."""
    return Facts(
        cluster=Cluster(keeps=("exactly.adminAccess",)),
        classes=(ClassFacts("gpu.intel.com", drivers=("gpu.intel.com",), devices=8),),
        names=(ResourceFacts(NAME, nodes=3 if plugin else 0),),
        drivers=(Driver("gpu.intel.com", kind="gpu", devices=8, nodes=2),),
    )


def done(
    allow: str, *, labelled: bool | None, placement: str = "native", plugin: bool = False
) -> Translation:
    configuration = Configuration(
        placement=Placement(placement),
        decisions=Decisions(admin_access=allow),  # type: ignore[arg-type]  # a word of the table
    )
    return translate(POD, make_context(configuration, facts(plugin=plugin)), admin_access=labelled)


def asks_for_admin(translation: Translation) -> bool:
    specs: list[YamlValue] = [each.object for each in translation.templates]
    requests = [each for spec in specs for each in spec["spec"]["spec"]["devices"]["requests"]]
    return any(each["exactly"].get("adminAccess") for each in requests)


@every_row(
    ("allow", "labelled", "plugin", "code", "severity", "translated"),
    [
        ("refuse", True, False, "AdminAccessNotAllowed", "error", False),
        ("refuse", None, False, "AdminAccessNotAllowed", "error", False),
        ("refuse", True, True, "LeftAsItIs", "warning", False),
        ("allow", False, False, "AdminAccessNotLabelled", "error", False),
        ("allow", False, True, "LeftAsItIs", "warning", False),
        ("allow", None, False, "AdminAccessUnknown", "warning", True),
        ("allow", True, False, "", "", True),
        ("allow", True, True, "", "", True),
    ],
)
def test_admin_access_needs_the_configuration_and_the_label(
    *,
    allow: str,
    labelled: bool | None,
    plugin: bool,
    code: str,
    severity: str,
    translated: bool,
) -> None:
    outcome = done(allow, labelled=labelled, plugin=plugin)
    assert asks_for_admin(outcome) == translated
    assert bool(outcome.edits) == translated
    problems = [(each.code, f"{each.severity}") for each in outcome.findings]
    assert [each for each in problems if each[1] != "info"] == ([(code, severity)] if code else [])
    if code.startswith("Admin"):
        (finding,) = (each for each in outcome.findings if each.code == code)
        assert "resource.kubernetes.io/admin-access" in finding.remedy
        assert NAME in finding.message


def test_bridge_placement_refuses_admin_access_as_well() -> None:
    translated = done("refuse", labelled=True, placement="bridge")
    assert "AdminAccessNotAllowed" in [each.code for each in translated.findings]
    assert not translated.templates


def test_namespaces_with_and_without_the_label_share_no_cached_translation() -> None:
    context = make_context(Configuration(decisions=Decisions(admin_access="allow")), facts())
    assert translate(POD, context, "a", admin_access=True).edits
    assert not translate(POD, context, "a", admin_access=False).edits
    assert translate(POD, context, "a", admin_access=True).edits


def test_other_requests_need_neither() -> None:
    pod: YamlValue = {
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {"gpu.intel.com/i915": 1}}}]
        }
    }
    translated = translate(pod, make_context(Configuration(), facts()), admin_access=False)
    assert translated.edits
    assert not asks_for_admin(translated)
