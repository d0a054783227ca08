"""Pods as far as devices are concerned: the claims they refer to, the resources they name.

Whether a pod is well-formed otherwise is the API server's matter.
"""

from collections.abc import Mapping

import msgspec

from dra.claim import ClaimMetadata
from dra.decode import Object, Reader
from dra.quantity import Quantity

SIDECAR = "Always"
FINISHED = ("Succeeded", "Failed")


class PodClaim(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod names a claim: an existing one, or a template for one of its own."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ContainerClaim(msgspec.Struct, frozen=True):
    """One of the pod's claims as a container uses it."""

    name: str
    request: str = ""


class ContainerResources(msgspec.Struct, frozen=True):
    """What a container asks for."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}
    claims: tuple[ContainerClaim, ...] = ()

    def asked(self) -> Mapping[str, Quantity]:
        """Give the requests; a limit without one is one, as the API server fills in."""
        return {**self.limits, **self.requests}


class PodContainer(msgspec.Struct, frozen=True, rename="camel"):
    """One container, of any sort."""

    name: str = ""
    resources: ContainerResources = ContainerResources()
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What of a pod decides where it can run, and with which devices."""

    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    resource_claims: tuple[PodClaim, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    containers: tuple[PodContainer, ...] = ()


class GeneratedClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The claim that was made for the pod; without a name none was needed."""

    name: str
    resource_claim_name: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a pod."""

    phase: str = ""
    resource_claim_statuses: tuple[GeneratedClaimStatus, ...] = ()


class Pod(Object, frozen=True, rename="camel", kw_only=True):
    """A Pod."""

    metadata: ClaimMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def namespace(self) -> str:
        """The namespace, which a file may leave out."""
        return self.metadata.namespace or "default"

    def containers(self) -> tuple[PodContainer, ...]:
        """Give all containers in the order in which they are counted."""
        return (*self.spec.init_containers, *self.spec.containers)


def pod_reader() -> Reader[Pod]:
    """Make a reader of pods."""
    return Reader("Pod", {"v1": Pod}, lambda wire: wire)
