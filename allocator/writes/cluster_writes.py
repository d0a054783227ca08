"""What the allocator reads and writes at the API server, as its other modules need it.

`allocator.writes.api_server` implements it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from drawbridge.dra.allocation import Allocation, Consumer
from drawbridge.dra.claim import Claim
from drawbridge.ledger.pods import Pod
from drawbridge.names import CLAIM_FINALIZER

# The finalizer of allocated claims, which is upstream's: the claim controller removes it.
FINALIZER: Final = CLAIM_FINALIZER
# Raises if what was decided does not hold any more.
Check: TypeAlias = Callable[[], None]


class PodName(NamedTuple):
    """The identity of one pod."""

    namespace: str
    name: str
    uid: str


class PodPlace(NamedTuple):
    """The node of a pod, empty if it has none, the version that shows it, and its claims then."""

    node: str
    version: str
    claims: frozenset[str] = frozenset()


def check_nothing() -> None:
    """Let a write be sent that depends on no decision."""


class ClusterWrites(Protocol):
    """Reads and writes claims and binds pods. All methods raise ApiError.

    The writes also raise NotLeadingError, unless the kube-scheduler of this host certainly leads.
    Each write of a claim applies to one version of it. Seconds can pass before a request is sent,
    and before an API server that is overloaded gets it again, so a `check` runs each time.
    """

    async def confirm_leading(self) -> None:
        """Read the Lease again; raises NotLeadingError unless it is ours."""
        ...

    async def read_claim(self, namespace: str, name: str) -> Claim | None:
        """Read a claim from the API server; None if it does not exist."""
        ...

    def list_claims(self) -> AsyncIterator[Claim]:
        """Read the current claims of all namespaces from the API server."""
        ...

    async def mark(self, claim: Claim, mark: str, check: Check) -> Claim:
        """Write the allocation mark and the finalizer."""
        ...

    async def unmark(self, claim: Claim) -> Claim:
        """Remove the allocation mark, and the finalizer unless the claim is allocated."""
        ...

    async def allocate(
        self, claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
    ) -> Claim:
        """Write the allocation and the consumers."""
        ...

    async def set_consumers(self, claim: Claim, consumers: Sequence[Consumer]) -> Claim:
        """Write the consumers of an allocated claim."""
        ...

    async def deallocate(self, claim: Claim) -> Claim:
        """Remove the allocation and the consumers."""
        ...

    async def read_place(self, pod: PodName) -> PodPlace | None:
        """Return where a pod is; None if it does not exist."""
        ...

    async def list_users(self, claim: Claim) -> list[tuple[PodName, PodPlace]]:
        """Return the pods that name a claim, as the API server has them now."""
        ...

    async def list_pods_on(self, node: str) -> list[Pod]:
        """Return the pods of a node, as the API server has them now."""
        ...

    async def end_bindings(self, pod: PodName, claim: Claim) -> PodPlace | None:
        """Change a pod that gives an allocated claim back, and return where it is.

        No binding that was sent before has an effect any more, unless the pod has a node now. None
        if the pod does not exist.
        """
        ...

    async def bind(self, pod: PodName, node: str, version: str, check: Check) -> None:
        """Bind a version of a pod to a node."""
        ...
