"""The claims that a judgement takes together."""

from drawbridge.dra.claim import Claim, ClaimMetadata, Template
from drawbridge.judge.context import ObjectLookups
from drawbridge.judge.subject import pod_subject
from drawbridge.ledger.pods import Pod, PodClaim, PodSpec

CLAIMS = {
    ("team", name): Claim(metadata=ClaimMetadata(name=name, namespace="team"))
    for name in ("mine", "other")
}
TEMPLATES = {
    ("team", "shape"): Template(metadata=ClaimMetadata(name="shape", namespace="team")),
}
LOOKUPS = ObjectLookups(
    find_claim=lambda namespace, name: CLAIMS.get((namespace, name)),
    find_template=lambda namespace, name: TEMPLATES.get((namespace, name)),
)


def refer(*entries: PodClaim, namespace: str = "team") -> list[tuple[str, str]]:
    metadata = ClaimMetadata(name="p", namespace=namespace)
    pod = Pod(metadata=metadata, spec=PodSpec(resource_claims=entries))
    subject = pod_subject(pod, LOOKUPS, "Deployment/team/web", pod_path="spec.template")
    assert (subject.object, subject.pod_path, subject.pod) == (
        "Deployment/team/web",
        "spec.template",
        pod,
    )
    return [(each.object, each.path) for each in subject.claims]


def claim(name: str) -> PodClaim:
    return PodClaim(f"c-{name}", resource_claim_name=name)


def template(entry: str, name: str = "shape") -> PodClaim:
    return PodClaim(entry, resource_claim_template_name=name)


def test_a_claim_that_two_references_name_is_judged_once() -> None:
    assert refer(claim("mine"), claim("mine"), claim("other")) == [
        ("ResourceClaim/team/mine", "spec"),
        ("ResourceClaim/team/other", "spec"),
    ]


def test_each_reference_to_a_template_is_a_claim_of_its_own() -> None:
    place = ("ResourceClaimTemplate/team/shape", "spec.spec")
    assert refer(template("a"), template("b")) == [place, place]


def test_what_does_not_exist_in_the_namespace_is_left_out() -> None:
    assert refer(claim("missing"), template("a", "missing"), PodClaim("empty")) == []
    assert refer(claim("mine"), template("a"), namespace="elsewhere") == []
