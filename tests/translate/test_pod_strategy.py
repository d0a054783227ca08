"""Annotations of Drawbridge on pods that choose a strategy: what is refused or ignored."""

import pytest

from drawbridge.config.model import Configuration, Placement
from drawbridge.names import STRATEGY_ANNOTATION, WEIGHTS_ANNOTATION
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate
from tests.tables import YamlValue

_STRATEGY = f"metadata.annotations[{STRATEGY_ANNOTATION}]"
_WEIGHTS = f"metadata.annotations[{WEIGHTS_ANNOTATION}]"
_NATIVE = TranslationContext(Configuration())
_BRIDGE = TranslationContext(Configuration(placement=Placement.BRIDGE))


def _pod(annotations: YamlValue, claims: YamlValue = None, gpus: int = 1) -> YamlValue:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "c", "resources": {"limits": limits}}
    spec = {"containers": [container], **({"resourceClaims": claims} if claims else {})}
    return {"metadata": {"annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (STRATEGY_ANNOTATION, "binpak", "did you mean binpack?"),
        (STRATEGY_ANNOTATION, "", "must be"),
        (STRATEGY_ANNOTATION, "x" * 10_000, "must be"),
        (WEIGHTS_ANNOTATION, "memory", "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=-1", "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=0.7", "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=1001", "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=" + "9" * 900, "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=٣", "is not a name and a whole number up to 1000"),
        (WEIGHTS_ANNOTATION, "memory=1,memory=2", "has two weights"),
        (WEIGHTS_ANNOTATION, "node.disk=1", "must be the name of a capacity"),
        (WEIGHTS_ANNOTATION, "a/b/c=1", "must be the name of a capacity"),
        (WEIGHTS_ANNOTATION, ",".join(f"m{i}=1" for i in range(9)), "at most 8 are allowed"),
        (WEIGHTS_ANNOTATION, "m=1," * 1000, "at most 1024 are allowed"),
    ],
)
@pytest.mark.parametrize("context", [_NATIVE, _BRIDGE])
def test_a_wrong_value_is_refused(
    context: TranslationContext, key: str, value: str, message: str
) -> None:
    done = translate(_pod({key: value}), context)
    (finding,) = [each for each in done.findings if each.code == "StrategyUnknown"]
    assert (finding.path, done.edits) == (f"metadata.annotations[{key}]", ())
    assert message in finding.message
    assert len(finding.message) < 500


def _ignored(pod: YamlValue, context: TranslationContext) -> list[str]:
    findings = translate(pod, context).findings
    return [each.path for each in findings if each.code == "StrategyIgnored"]


def test_native_placement_says_that_nothing_obeys() -> None:
    pod = _pod({STRATEGY_ANNOTATION: "packed", WEIGHTS_ANNOTATION: "memory=1"})
    assert _ignored(pod, _NATIVE) == [_STRATEGY, _WEIGHTS]
    assert _ignored(pod, _BRIDGE) == []


def test_claims_of_a_pods_own_have_their_own_rules() -> None:
    own = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    ours = [{"name": "drawbridge", "resourceClaimTemplateName": "drawbridge-0123"}]
    annotations = {STRATEGY_ANNOTATION: "packed"}
    assert _ignored(_pod(annotations, own, gpus=0), _BRIDGE) == [_STRATEGY]
    assert _ignored(_pod(annotations, ours, gpus=0), _BRIDGE) == []
    assert _ignored(_pod(annotations, gpus=0), _BRIDGE) == []
