"""What is judged: the claims of one object together, and who made them.

A claim or a template is a subject with one claim. A pod, or the pod template of a workload, is a
subject with all of its claims, because one node must satisfy all of them.
"""

import enum
from collections.abc import Iterator

import msgspec

from drawbridge.dra.claim import Choice, Claim, ClaimMetadata, Template, request_choices
from drawbridge.dra.validation import format_object_name
from drawbridge.judge.context import ObjectLookups
from drawbridge.ledger.pods import Pod


class Origin(enum.StrEnum):
    """Where an object is from. The control plane's objects are never refused.

    A file may be corrected, so what is probably wrong in it is an error.
    """

    FILE = "file"
    USER = "user"
    CONTROL_PLANE = "control plane"


class JudgedClaim(msgspec.Struct, frozen=True):
    """One claim, and where its spec is written.

    `object` and `path` locate the spec: `spec` in a claim, `spec.spec` in a template. A claim that
    a pod refers to keeps its own object, so that a finding names what must be changed.
    """

    claim: Claim
    object: str
    path: str = "spec"

    def list_choices(self) -> Iterator[tuple[str, Choice]]:
        """Yield what each request asks for, with all of its alternatives and their paths."""
        for i, request in enumerate(self.claim.spec.devices.requests):
            for j, choice in enumerate(request_choices(request)):
                yield self.choice_path(i, None if request.exactly is not None else j), choice

    def choice_path(self, request: int, alternative: int | None) -> str:
        """Return the path of an alternative of a request; None: it has no alternatives."""
        inside = "exactly" if alternative is None else f"firstAvailable[{alternative}]"
        return f"{self.path}.devices.requests[{request}].{inside}"


class Subject(msgspec.Struct, frozen=True):
    """The object of one judgement.

    `pod` is set for pods and workloads; `pod_path` is the path of the pod in the object, empty for
    a pod itself.
    """

    object: str
    namespace: str
    claims: tuple[JudgedClaim, ...] = ()
    pod: Pod | None = None
    pod_path: str = ""
    origin: Origin = Origin.USER

    @property
    def claims_path(self) -> str:
        """The path of a finding about all claims together."""
        if self.pod is not None:
            return f"{self.pod_path}.spec.resourceClaims".removeprefix(".")
        return f"{self.claims[0].path}.devices" if self.claims else ""


def claim_subject(claim: Claim, about: str = "", *, origin: Origin = Origin.USER) -> Subject:
    """Return the subject of a claim; `about` is its name in findings."""
    about = about or format_object_name("ResourceClaim", claim.metadata)
    return Subject(
        about, claim.metadata.namespace or "default", (JudgedClaim(claim, about),), origin=origin
    )


def template_subject(template: Template, about: str = "") -> Subject:
    """Return the subject of a template: the claim that it generates."""
    about = about or format_object_name("ResourceClaimTemplate", template.metadata)
    namespace = template.metadata.namespace or "default"
    metadata = ClaimMetadata(
        name=template.metadata.name,
        namespace=namespace,
        labels=template.spec.metadata.labels,
        annotations=template.spec.metadata.annotations,
    )
    claim = Claim(metadata=metadata, spec=template.spec.spec)
    return Subject(about, namespace, (JudgedClaim(claim, about, "spec.spec"),))


def pod_subject(
    pod: Pod,
    lookups: ObjectLookups,
    about: str = "",
    *,
    pod_path: str = "",
) -> Subject:
    """Return the subject of a pod: its claims that exist, and those of templates that exist.

    `about` and `pod_path` locate the pod in the object that has it, such as a Deployment.
    """
    about = about or format_object_name("Pod", pod.metadata)
    claims = tuple(_find_claims(pod, lookups))
    return Subject(about, pod.namespace, claims, pod, pod_path)


def _find_claims(pod: Pod, lookups: ObjectLookups) -> Iterator[JudgedClaim]:
    """Yield each claim once. Each reference to a template generates a claim of its own."""
    seen: set[str] = set()
    for entry in pod.spec.resource_claims:
        name, template_name = entry.resource_claim_name, entry.resource_claim_template_name
        if template_name:
            template = lookups.find_template(pod.namespace, template_name)
            if template is not None:
                yield from template_subject(template).claims
        elif name and name not in seen:
            seen.add(name)
            claim = lookups.find_claim(pod.namespace, name)
            if claim is not None:
                yield from claim_subject(claim).claims
