"""Connect the reconciler of the CA with the API server."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from certs.issuing import AllocatorCertificateReconciler
from certs.reconciler import AuthorityWriter, CertificateReconciler, Outside
from certs.rotation import RotationPolicy
from certs.watched_secret import WatchedAuthorities
from controller.field_ownership import release_fields
from controller.protocols import ObjectReference, Reporter, Unstructured
from drawbridge.agreement.match_conditions import GUARD_KIND, KIND
from drawbridge.cluster.client import Fence, ResourceClient, decode_object
from drawbridge.cluster.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session
from drawbridge.config.model import Configuration, Placement
from drawbridge.finding import Finding
from drawbridge.names import ALLOCATOR_SECRET, CA_FIELD_MANAGER, CA_SECRET

_ACTION: Final = "Certificates"


class ApiAuthorityWriter:
    """Writes Secrets and the webhook configurations behind the fence of the leader."""

    def __init__(self, session: Session, fence: Fence) -> None:
        def open_client(resource: Resource) -> ResourceClient[Unstructured]:
            return ResourceClient(
                session,
                resource,
                decode_object,
                namespace=session.namespace,
                manager=CA_FIELD_MANAGER,
                fence=fence,
            )

        self._secrets = open_client(SECRETS)
        self._configurations = {
            KIND: open_client(MUTATING_WEBHOOKS),
            GUARD_KIND: open_client(VALIDATING_WEBHOOKS),
        }

    async def read_secret(self, name: str) -> Unstructured | None:
        """Read a Secret; None if it does not exist."""
        return await self._secrets.read(name)

    async def write_secret(self, value: Unstructured) -> Unstructured:
        """Create a Secret, or replace the version that its metadata names; return it."""
        if "resourceVersion" in value["metadata"]:
            return await self._secrets.replace(value)
        return await self._secrets.create(value)

    async def apply_bundle(self, value: Unstructured) -> None:
        """Apply the bundle to a webhook configuration as the field manager of the bundle."""
        await self._configurations[value["kind"]].apply(value)

    async def release_bundle(self, live: Unstructured) -> None:
        """Give up the ownership of the bundle, unless the configuration has changed meanwhile."""
        await release_fields(self._configurations[live["kind"]], live, CA_FIELD_MANAGER)


_: type[AuthorityWriter] = ApiAuthorityWriter


class Alarm:
    """Wakes a reconciler up after a while; a later call replaces an earlier one."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Wake up in this many seconds."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def cancel(self) -> None:
        """Wake nobody up any more."""
        if self._timer is not None:
            self._timer.cancel()


class CertificateParts(NamedTuple):
    """What this process needs to make certificates while it leads."""

    secret: WatchedAuthorities
    policy: RotationPolicy
    writer: ApiAuthorityWriter


def make_certificate_parts(
    policy: RotationPolicy | None, session: Session, fence: Fence
) -> CertificateParts | None:
    """Return the parts, or None if somebody else makes certificates."""
    if policy is None:
        return None
    return CertificateParts(WatchedAuthorities(session), policy, ApiAuthorityWriter(session, fence))


def make_certificate_reconciler(
    parts: CertificateParts,
    reporter: Reporter,
    read_configurations: Callable[[], list[Unstructured]],
    wake_in: Callable[[float], None],
) -> CertificateReconciler:
    """Return the reconciler; `wake_in` starts its next run after so many seconds."""
    report = _report_about(CA_SECRET, parts, reporter)
    outside = Outside(read_configurations, parts.writer, report, boot_time, wake_in)
    return CertificateReconciler(parts.secret, parts.policy, outside)


def make_allocator_certificate_reconciler(
    parts: CertificateParts, reporter: Reporter, configuration: Callable[[], Configuration]
) -> AllocatorCertificateReconciler:
    """Return the reconciler, which signs with bridge placement only."""
    return AllocatorCertificateReconciler(
        parts.secret,
        parts.writer,
        _report_about(ALLOCATOR_SECRET, parts, reporter),
        is_wanted=lambda: configuration().placement is Placement.BRIDGE,
    )


def _report_about(
    secret: str, parts: CertificateParts, reporter: Reporter
) -> Callable[[Finding], None]:
    reference = ObjectReference("Secret", secret, parts.secret.namespace)
    return lambda finding: reporter.report(finding, reference, _ACTION)
