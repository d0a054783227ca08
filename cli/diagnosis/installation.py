"""The checks of `drawbridge doctor` about the installation: webhooks, scope, facts and leader."""

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from certs.authority import Certificate, read_certificates
from cli.diagnosis import codes
from cli.diagnosis.line import DoctorLine, describe_seconds, found, not_checked, passed
from cli.diagnosis.state import ClusterState, Object, Unread
from cli.diagnosis.webhook_trial import TrialResult
from drawbridge.agreement.match_conditions import find_inactive
from drawbridge.agreement.published_facts import FactsConfigMap, PublishedFactsError, read_facts
from drawbridge.agreement.scope import Mode, decide_namespace_scope
from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Code
from drawbridge.names import CONTROLLER_LEASE, FACTS_CONFIG_MAP, SCHEDULER_LEASE

_REGISTRATION: Final = "webhook registration"
_CERTIFICATE: Final = "webhook certificate"
_TRIAL: Final = "webhook"
_SCOPE: Final = "namespaces"
_FACTS: Final = "facts"
_LEADER: Final = "controller"
_SCHEDULER: Final = "scheduler"
_DAY: Final = 86_400
# The controller renews its authorities long before; a serving certificate of one's own may be late.
_SOON: Final = 14 * _DAY
_WITHOUT_LEADER: Final = 60


def _registrations(state: ClusterState) -> Iterator[Object]:
    for configuration in (state.installed.mutating, state.installed.judge):
        if isinstance(configuration, Mapping):
            yield configuration


def _check_registration(state: ClusterState, configuration: Configuration) -> Iterator[DoctorLine]:
    live = state.installed.mutating
    if isinstance(live, Unread):
        yield not_checked(_REGISTRATION, live.reason)
        return
    inactive = find_inactive(None if live is None else {**live}, configuration)
    yield from (found(_REGISTRATION, each) for each in inactive)
    if not inactive:
        judge = " and drawbridge-judge" if isinstance(state.installed.judge, Mapping) else ""
        message = f"drawbridge{judge} in namespace {state.installed.namespace}"
        yield passed(
            _REGISTRATION, f"{message}; the match conditions are those of the configuration"
        )


# --- certificates --------------------------------------------------------------------------------


def _check_certificates(state: ClusterState, _: Configuration) -> Iterator[DoctorLine]:
    entries = [
        (f"{get_value(webhook, ('name',))}", get_value(webhook, ("clientConfig", "caBundle")))
        for registration in _registrations(state)
        for webhook in _webhooks(registration)
    ]
    lines = dict.fromkeys(_check_bundle(name, bundle, state.now) for name, bundle in entries)
    problems = [each for each in lines if each.code]
    # Every entry has the same bundle, unless an injection is incomplete.
    yield from problems or list(lines)[:1]


def _webhooks(registration: Object) -> Iterator[dict[str, Value]]:
    listed = registration.get("webhooks")
    yield from (
        entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)
    )


def _check_bundle(name: str, bundle: Value, now: float) -> DoctorLine:
    try:
        pem = base64.b64decode(bundle if isinstance(bundle, str) else "", validate=True)
        certificates = read_certificates(pem)
    except (ValueError, binascii.Error):
        message = f"{name}: caBundle is {'not readable' if bundle else 'missing'}"
        return found(_CERTIFICATE, codes.CERTIFICATE_UNUSABLE.at("", message))
    last = max(certificates, key=lambda each: each.not_after)
    valid = [each for each in certificates if each.is_valid(now)]
    if not valid:
        message = f"{name}: {_describe_invalid(last, now)}"
        return found(_CERTIFICATE, codes.CERTIFICATE_UNUSABLE.at("", message))
    left = last.not_after - now
    if left < _SOON:
        message = (
            f"{name}: caBundle expires in {describe_seconds(left)}, on {_date(last.not_after)}"
        )
        return found(_CERTIFICATE, codes.CERTIFICATE_EXPIRES.at("", message))
    message = (
        f"caBundle has {count_noun(len(valid), 'valid certificate')} until {_date(last.not_after)}"
    )
    return passed(_CERTIFICATE, message)


def _describe_invalid(certificate: Certificate, now: float) -> str:
    if now < certificate.not_before:
        return f"caBundle is valid only from {_date(certificate.not_before)}"
    ago = describe_seconds(now - certificate.not_after)
    return f"caBundle expired {ago} ago, on {_date(certificate.not_after)}"


def _date(unix: float) -> str:
    return f"{dt.datetime.fromtimestamp(unix, dt.UTC):%Y-%m-%d %H:%M} UTC"


# --- scope and answers ---------------------------------------------------------------------------


def _check_scope(state: ClusterState, configuration: Configuration) -> Iterator[DoctorLine]:
    if state.installed.mutating is None:
        return
    if isinstance(state.namespaces, Unread):
        yield not_checked(_SCOPE, state.namespaces.reason)
        return
    scopes = {
        name: decide_namespace_scope(name, labels, configuration.scope)
        for name, labels in state.namespaces.items()
    }
    for name in sorted(scopes):
        yield from (found(_SCOPE, each) for each in scopes[name].findings)
    numbers = {mode: sum(each.mode is mode for each in scopes.values()) for mode in Mode}
    total = count_noun(len(scopes), "namespace")
    if not numbers[Mode.ENFORCE] + numbers[Mode.REPORT]:
        yield found(_SCOPE, codes.NOTHING_IN_SCOPE.at("", f"0 of {total} are opted in"))
        return
    enforced = f"{numbers[Mode.ENFORCE]} of {total} in mode enforce"
    yield passed(_SCOPE, f"{enforced}, {numbers[Mode.REPORT]} in mode report")


def _check_answers(state: ClusterState, _: Configuration) -> Iterator[DoctorLine]:
    """Say what the webhook did with the sample pods."""
    trial = state.trial
    if trial is None:
        return
    where = f"namespace {trial.namespace}: " if trial.namespace else ""
    sample = f"a pod that requests {trial.resource}"
    match trial.result:
        case TrialResult.TRANSLATED:
            yield passed(_TRIAL, f"{where}translates {sample} (dry run)")
        case TrialResult.LEFT:
            yield passed(_TRIAL, f"{where}answers, and leaves {sample} as it is (dry run)")
        case TrialResult.DENIED:
            yield passed(_TRIAL, f"{where}answers, and denies {sample} (dry run): {trial.detail}")
        case TrialResult.NOT_CALLED:
            message = f"{where}a pod with an impossible device request is admitted unchanged"
            yield found(_TRIAL, codes.WEBHOOK_NOT_CALLED.at("", message))
        case TrialResult.UNREACHABLE:
            yield found(_TRIAL, codes.WEBHOOK_UNREACHABLE.at("", f"{where}{trial.detail}"))
        case TrialResult.UNKNOWN:
            yield found(_TRIAL, codes.WEBHOOK_NOT_TRIED.at("", f"{where}{trial.detail}"))


# --- controller ----------------------------------------------------------------------------------


def _check_facts(state: ClusterState, _: Configuration) -> Iterator[DoctorLine]:
    if state.installed.mutating is None:
        return
    live, name = state.installed.facts, f"{state.installed.namespace}/{FACTS_CONFIG_MAP}"
    if isinstance(live, Unread):
        yield not_checked(_FACTS, live.reason)
        return
    if live is None:
        yield found(_FACTS, codes.FACTS_MISSING.at("", f"ConfigMap {name} not found"))
        return
    try:
        facts = read_facts(msgspec.convert(dict(live), FactsConfigMap))
    except (PublishedFactsError, msgspec.ValidationError) as error:
        yield found(_FACTS, codes.FACTS_MISSING.at("", f"ConfigMap {name}: {error}"))
        return
    changed = _last_change(live)
    age = f", changed {describe_seconds(state.now - changed)} ago" if changed else ""
    devices = sum(each.devices for each in facts.drivers)
    classes = count_noun(len(facts.classes), "class", "classes")
    yield passed(_FACTS, f"ConfigMap {name}: {classes}, {count_noun(devices, 'device')}{age}")


def _last_change(live: Object) -> float | None:
    """Return the time of the last write; the metadata of managed fields has it."""
    metadata = live.get("metadata")
    managed = metadata.get("managedFields") if isinstance(metadata, dict) else None
    entries = managed if isinstance(managed, list) else []
    times = [_read_time(get_value(each, ("time",))) for each in entries]
    times.append(_read_time(get_value(metadata, ("creationTimestamp",))))
    return max((each for each in times if each is not None), default=None)


def _read_time(text: Value) -> float | None:
    try:
        return dt.datetime.fromisoformat(f"{text}").timestamp()
    except ValueError:
        return None


def _check_leader(state: ClusterState, _: Configuration) -> Iterator[DoctorLine]:
    if state.installed.mutating is not None:
        lease = state.installed.lease
        yield _check_lease(_LEADER, CONTROLLER_LEASE, lease, codes.LEADER_MISSING, state)


def _check_scheduler(state: ClusterState, configuration: Configuration) -> Iterator[DoctorLine]:
    """With `placement: bridge`, say which scheduler leads; only its allocator allocates."""
    if configuration.placement is Placement.BRIDGE:
        lease = state.installed.scheduler_lease
        yield _check_lease(_SCHEDULER, SCHEDULER_LEASE, lease, codes.SCHEDULER_MISSING, state)


def _check_lease(
    check: str, bare: str, live: Object | Unread | None, missing: Code, state: ClusterState
) -> DoctorLine:
    name = f"{state.installed.namespace}/{bare}"
    if isinstance(live, Unread):
        return not_checked(check, live.reason)
    spec = get_value(dict(live or {}), ("spec",))
    renewed = _read_time(get_value(spec, ("renewTime",)))
    holder = get_value(spec, ("holderIdentity",))
    if renewed is None or not holder:
        message = f"Lease {name} {'has no holder' if live else 'not found'}"
        return found(check, missing.at("", message))
    if state.now - renewed > _WITHOUT_LEADER:
        ago = describe_seconds(state.now - renewed)
        message = f"Lease {name} was last renewed {ago} ago, by {holder}"
        return found(check, missing.at("", message))
    return passed(check, f"{holder} leads")


INSTALLATION_CHECKS: Final[
    tuple[Callable[[ClusterState, Configuration], Iterator[DoctorLine]], ...]
] = (
    _check_registration,
    _check_certificates,
    _check_scope,
    _check_answers,
    _check_facts,
    _check_leader,
    _check_scheduler,
)
