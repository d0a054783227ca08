"""Carry out the decisions about the CA, in the leading controller: store, inject, report."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from certs.authority import Authorities, Authority, create_authority
from certs.injection import (
    compose_injection,
    find_other_injector,
    find_trusted,
    is_trusted_everywhere,
)
from certs.issuing import SecretWriter
from certs.rotation import (
    RotationDecision,
    RotationPolicy,
    Situation,
    Step,
    add_upcoming,
    combine,
    decide,
)
from certs.secret import SecretReading, SecretState, compose_secret
from certs.watched_secret import WatchedAuthorities
from drawbridge.agreement.operation_codes import (
    AUTHORITY_RESTORED,
    AUTHORITY_ROTATED,
    BUNDLE_MANAGED_ELSEWHERE,
    SECRET_NOT_OWNED,
)
from drawbridge.agreement.refused_writes import describe_refused_write
from drawbridge.api_error import ApiError
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.finding import Finding
from drawbridge.names import CA_SECRET
from drawbridge.process import metrics
from drawbridge.process.logs import log_event
from drawbridge.process.tls import format_time

_LOG: Final = logging.getLogger("certs.reconciler")
NAME: Final = "certificates"
_ABOUT: Final = f"Secret/{CA_SECRET}"
# A wrong time would drop a CA that is valid.
_UNCERTAIN_WAIT: Final = 5.0
JSONObject = dict[str, Any]


class AuthorityWriter(SecretWriter, Protocol):
    """Writes as the leader; every method raises an error of the API server."""

    async def apply_bundle(self, value: JSONObject) -> None:
        """Apply the bundle to a webhook configuration as the field manager of the bundle."""

    async def release_bundle(self, live: JSONObject) -> None:
        """Give up the ownership of the bundle, unless the configuration has changed meanwhile."""


class Outside(NamedTuple):
    """What the reconciler reads and calls; `elapsed` is monotonic."""

    read_configurations: Callable[[], Iterable[JSONObject]]
    writer: AuthorityWriter
    report: Callable[[Finding], None]
    elapsed: Callable[[], float]
    wake_in: Callable[[float], None]


class CertificateReconciler:
    """Keeps the Secret of the CA and every `caBundle` as `certs.rotation` decides."""

    name = NAME

    def __init__(
        self, secret: WatchedAuthorities, policy: RotationPolicy, outside: Outside
    ) -> None:
        self._secret = secret
        self._policy = policy
        self._outside = outside
        self._trusted_since: tuple[str, float] | None = None
        # API servers whose clocks differ make it uncertain again and again.
        end = "the time of the API server is certain after %.0f s"
        self._log = FailureLog(_LOG, end, outside.elapsed)

    async def reconcile(self) -> None:
        """Take one step, and plan when to look again."""
        if not self._secret.is_time_certain():
            text = "the time of the API server is not certain yet"
            self._log.note("time", logging.WARNING, text)
            self._outside.wake_in(_UNCERTAIN_WAIT)
            return
        self._log.succeed()
        configurations = self._find_configurations()
        reading = self._secret.reading
        remembered, now = self._secret.remembered, self._secret.now()
        upcoming = combine(reading, remembered, now).upcoming
        situation = Situation(
            reading=reading,
            remembered=remembered,
            live=find_trusted(configurations, self._secret.namespace),
            injected_for=self._measure_injection(upcoming, configurations),
        )
        decision = decide(situation, self._policy, now)
        try:
            authorities = await self._store(decision, reading)
        except ApiError as error:
            for finding in describe_refused_write("Secret", error, _ABOUT):
                self._outside.report(finding)
            if not error.changed and not error.exists:  # else the decision is out of date
                await self._inject(decision.authorities, configurations)
            raise
        await self._inject(authorities, configurations)
        self._outside.wake_in(decision.wait)

    def _find_configurations(self) -> list[JSONObject]:
        """Return the configurations that get the bundle, and report the others."""
        injected = []
        for configuration in self._outside.read_configurations():
            if (annotation := find_other_injector(configuration)) is None:
                injected.append(configuration)
                continue
            name = f"{configuration['kind']} {configuration['metadata']['name']}"
            message = f"annotation {annotation} of {name}: another client sets its caBundle"
            self._outside.report(BUNDLE_MANAGED_ELSEWHERE.at("metadata.annotations", message))
        return injected

    def _measure_injection(
        self, upcoming: Authority | None, configurations: Iterable[JSONObject]
    ) -> float | None:
        """Return for how long every entry has trusted the upcoming CA, as this process saw it."""
        namespace = self._secret.namespace
        if upcoming is None or not is_trusted_everywhere(
            configurations, namespace, upcoming.certificate
        ):
            self._trusted_since = None
            return None
        now = self._outside.elapsed()
        if self._trusted_since is None or self._trusted_since[0] != upcoming.certificate.pem:
            self._trusted_since = upcoming.certificate.pem, now
        return now - self._trusted_since[1]

    async def _store(self, decision: RotationDecision, reading: SecretReading) -> Authorities:
        """Write the Secret if the step changes it, then report; return what to inject."""
        step, authorities = decision.step, decision.authorities
        if step is Step.CREATE:
            created = create_authority(self._secret.now(), self._policy.life)
            authorities = add_upcoming(authorities, created)
        written = None
        if step not in (Step.KEEP, Step.WAIT_FOR_OWNER):
            value = compose_secret(authorities, self._secret.live)
            written = await self._outside.writer.write_secret(value)
            metrics.AUTHORITY_STEPS.labels(step.value).inc()
            log_event(_LOG, logging.INFO, "the Secret of the CA is written", step=step.value)
        self._secret.remember(written, authorities)
        for finding in _describe_step(step, authorities, reading):
            self._outside.report(finding)
        return authorities

    async def _inject(self, authorities: Authorities, configurations: Iterable[JSONObject]) -> None:
        if not authorities.trusted:
            return
        namespace, bundle = self._secret.namespace, authorities.bundle
        changes = [(each, compose_injection(each, namespace, bundle)) for each in configurations]
        metrics.BUNDLES_MISSING.set(sum(change is not None for _, change in changes))
        failures: list[Exception] = []
        for live, change in changes:
            try:
                await self._apply(change, live)
            except Exception as error:  # noqa: BLE001  # one configuration must not stop the others
                failures.append(error)
        if failures:
            raise failures[0]

    async def _apply(self, change: JSONObject | None, live: JSONObject) -> None:
        """Apply the bundle where it is missing; give up the ownership where it is not."""
        if change is None:
            await self._outside.writer.release_bundle(live)
            return
        try:
            await self._outside.writer.apply_bundle(change)
        except Exception:
            metrics.INJECTIONS.add("error")
            raise
        metrics.INJECTIONS.add("success")


def _describe_step(
    step: Step, authorities: Authorities, reading: SecretReading
) -> Iterable[Finding]:
    if step is Step.WAIT_FOR_OWNER:
        current = authorities.current
        ends = current and f"; the CA that is in use expires at {_format_end(current)}"
        yield SECRET_NOT_OWNED.at("", f"{reading.problem}{ends or ''}", object=_ABOUT)
    if step is Step.RETIRE:
        text = "a CA expired, and the webhook configurations do not trust it any more"
        yield AUTHORITY_ROTATED.at("data", text, object=_ABOUT)
    if step is Step.RESTORE or (step is Step.CREATE and reading.state is SecretState.DAMAGED):
        problem = (
            reading.problem or f"Secret {CA_SECRET} had another CA than the one that was trusted"
        )
        message = f"{problem}; the controller wrote it again"
        yield AUTHORITY_RESTORED.at("data", message, object=_ABOUT)
    if step is Step.CREATE and authorities.upcoming is not None:
        text = f"{_name(authorities.upcoming)} is new and signs once it is trusted everywhere"
        yield AUTHORITY_ROTATED.at("data", text, object=_ABOUT)
    if step is Step.PROMOTE and (signer := authorities.current) is not None:
        ends = _format_end(signer)
        text = f"{_name(signer)} signs the serving certificates now; it is valid until {ends}"
        yield AUTHORITY_ROTATED.at("data", text, object=_ABOUT)


def _format_end(authority: Authority) -> str:
    return format_time(authority.certificate.not_after)


def _name(authority: Authority) -> str:
    return f"CA {authority.certificate.fingerprint}"
