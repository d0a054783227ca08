"""The checks of `drawbridge doctor` about an installation: webhooks, scope, facts and replicas."""

import base64
import binascii
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from certs.authority import Certificate, read_certificates
from cli.diagnosis import codes
from cli.diagnosis.checked_state import CheckedState, Result
from cli.diagnosis.line import describe_seconds
from cli.diagnosis.state import ClusterState, Object
from cli.diagnosis.unread import Unread, need
from cli.diagnosis.webhook_trial import TrialResult
from cli.terminal.durations import parse_time
from drawbridge.agreement.admission_codes import PLACEMENT_LABEL_UNKNOWN
from drawbridge.agreement.match_conditions import (
    GUARD_KIND,
    KIND,
    are_as_derived,
    find_uncalled,
)
from drawbridge.agreement.published_facts import FactsConfigMap, PublishedFactsError, read_facts
from drawbridge.agreement.scheduler_lease import PATIENCE_SECONDS, last_renewal
from drawbridge.agreement.scope import Mode, decide_namespace_scope
from drawbridge.config.model import Placement
from drawbridge.config.placement import decide_placement
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.finding import Code, Finding
from drawbridge.names import (
    CONTROLLER_DEPLOYMENT,
    CONTROLLER_LEASE,
    FACTS_CONFIG_MAP,
    JUDGE_CONFIGURATION,
    JUDGE_DEPLOYMENT,
    PLACEMENT_LABEL,
    SCHEDULER_DEPLOYMENT,
    SCHEDULER_LEASE,
    WEBHOOK_CONFIGURATION,
    WEBHOOK_DEPLOYMENT,
)
from drawbridge.translate.changes.codes import DEVICES_DIVIDED
from drawbridge.translate.changes.scheduler import describe_usable, find_placement_remedy

_DAY: Final = 86_400
# The controller renews its authorities long before; a serving certificate of one's own may be late.
_SOON: Final = 14 * _DAY
_MOST_NAMES: Final = 10
# What the API server, written in Go, says of each certificate that it does not accept.
_UNTRUSTED: Final = "failed to verify certificate"


def _registrations(state: ClusterState) -> Iterator[Object]:
    installed = state.installed
    for configuration in (installed.mutating, installed.validating, installed.judge):
        if isinstance(configuration, Mapping):
            yield configuration


def check_registration(checked: CheckedState) -> Iterator[Result]:
    """Compare the webhook configuration with the one that the controller writes."""
    installed, namespaces = checked.state.installed, checked.state.namespaces
    namespaces = {} if isinstance(namespaces, Unread) else namespaces
    told: list[Result] = []
    registered = {
        (KIND, WEBHOOK_CONFIGURATION): installed.mutating,
        (GUARD_KIND, WEBHOOK_CONFIGURATION): installed.validating,
    }
    if installed.judge or isinstance(installed.deployments[JUDGE_DEPLOYMENT], Mapping):
        registered[GUARD_KIND, JUDGE_CONFIGURATION] = installed.judge
    for (kind, name), read in registered.items():
        if isinstance(read, Unread):
            told.append(read)
        else:
            live = None if read is None else {**read}
            told += find_uncalled(kind, name, live, checked.configuration, namespaces)
    yield from told
    if not told:
        judge = " and drawbridge-judge" if isinstance(installed.judge, Mapping) else ""
        message = f"drawbridge{judge} in namespace {installed.namespace}"
        mutating = installed.mutating
        if isinstance(mutating, Mapping) and are_as_derived(mutating, checked.configuration):
            yield f"{message}; the match conditions are those of the configuration"
        else:
            yield f"{message}; no controller has narrowed the match conditions yet"


# --- certificates --------------------------------------------------------------------------------


def check_certificates(checked: CheckedState) -> Iterator[Result]:
    """Say how long the API server can trust the webhooks."""
    entries = [
        (f"{get_value(webhook, ('name',))}", get_value(webhook, ("clientConfig", "caBundle")))
        for registration in _registrations(checked.state)
        for webhook in _webhooks(registration)
    ]
    now = checked.state.now
    told = dict.fromkeys(_check_bundle(name, bundle, now) for name, bundle in entries)
    problems = [each for each in told if isinstance(each, Finding)]
    # Every entry has the same bundle, unless an injection is incomplete.
    yield from problems or list(told)[:1]


def _webhooks(registration: Object) -> Iterator[dict[str, Value]]:
    return (each for each in as_list(registration.get("webhooks")) if isinstance(each, dict))


def _check_bundle(name: str, bundle: Value, now: float) -> str | Finding:
    try:
        pem = base64.b64decode(bundle if isinstance(bundle, str) else "", validate=True)
        certificates = read_certificates(pem)
    except (ValueError, binascii.Error):
        message = f"{name}: caBundle is {'not readable' if bundle else 'missing'}"
        return codes.CERTIFICATE_UNUSABLE.at("", message)
    last = max(certificates, key=lambda each: each.not_after)
    valid = [each for each in certificates if each.is_valid(now)]
    if not valid:
        message = f"{name}: {_describe_invalid(last, now)}"
        return codes.CERTIFICATE_UNUSABLE.at("", message)
    left = last.not_after - now
    if left < _SOON:
        message = (
            f"{name}: caBundle expires in {describe_seconds(left)}, on {_date(last.not_after)}"
        )
        return codes.CERTIFICATE_EXPIRES.at("", message)
    return (
        f"caBundle has {count_noun(len(valid), 'valid certificate')} until {_date(last.not_after)}"
    )


def _describe_invalid(certificate: Certificate, now: float) -> str:
    if now < certificate.not_before:
        return f"caBundle is valid only from {_date(certificate.not_before)}"
    ago = describe_seconds(now - certificate.not_after)
    return f"caBundle expired {ago} ago, on {_date(certificate.not_after)}"


def _date(unix: float) -> str:
    return f"{dt.datetime.fromtimestamp(unix, dt.UTC):%Y-%m-%d %H:%M} UTC"


# --- scope and answers ---------------------------------------------------------------------------


def check_scope(checked: CheckedState) -> Iterator[Result]:
    """Count the opted-in namespaces."""
    namespaces = need(checked.state.namespaces)
    scopes = {
        name: decide_namespace_scope(name, labels, checked.configuration.scope)
        for name, labels in namespaces.items()
    }
    for name in sorted(scopes):
        yield from scopes[name].findings
    numbers = {mode: sum(each.mode is mode for each in scopes.values()) for mode in Mode}
    total = count_noun(len(scopes), "namespace")
    total += "" if checked.lists_namespaces else " that you may read"
    if not numbers[Mode.ENFORCE] + numbers[Mode.REPORT]:
        yield codes.NOTHING_IN_SCOPE.at("", f"0 of {total} are opted in")
        return
    enforced = f"{numbers[Mode.ENFORCE]} of {total} in mode enforce"
    yield f"{enforced}, {numbers[Mode.REPORT]} in mode report"


def check_placement(checked: CheckedState) -> Iterator[Result]:
    """Say which namespaces use bridge placement, and of how many devices pods can use a part."""
    configuration = checked.configuration
    if configuration.placement is Placement.NATIVE:
        return
    namespaces = need(checked.state.namespaces)
    names: dict[Placement, list[str]] = {each: [] for each in Placement}
    for name, labels in sorted(namespaces.items()):
        if decide_namespace_scope(name, labels, configuration.scope).mode is not Mode.OFF:
            names[decide_placement(labels, configuration)].append(name)
            if labels.get(PLACEMENT_LABEL, Placement.NATIVE) not in set(Placement):
                message = (
                    f"namespace {name} has the label {PLACEMENT_LABEL} with the value "
                    f"{labels[PLACEMENT_LABEL]}, which is not valid"
                )
                yield PLACEMENT_LABEL_UNKNOWN.at("", message, object=f"Namespace/{name}")
    for placement, several in names.items():
        for row in checked.gathered.facts.classes if several else ():
            usable = describe_usable(row, is_ours=placement is Placement.BRIDGE)
            if usable:
                listed = list_some(several, _MOST_NAMES, "namespace")
                message = f"with {placement} placement, pods of {listed} can use {usable}"
                remedy = find_placement_remedy(row, is_ours=placement is Placement.BRIDGE)
                yield DEVICES_DIVIDED.at("", message, remedy=remedy)
    counts = {each: count_noun(len(several), "namespace") for each, several in names.items()}
    yield f"bridge placement in {counts[Placement.BRIDGE]}, native in {counts[Placement.NATIVE]}"


def check_answers(checked: CheckedState) -> Iterator[Result]:
    """Say what the webhook did with the sample pods."""
    trial = checked.state.trial
    if trial is None:
        yield from _check_unregistered(checked)
        return
    where = f"namespace {trial.namespace}: " if trial.namespace else ""
    sample = f"a pod that requests {trial.resource}"
    match trial.result:
        case TrialResult.TRANSLATED:
            yield f"{where}translates {sample} (dry run)"
        case TrialResult.LEFT:
            yield f"{where}answers, and leaves {sample} as it is (dry run)"
        case TrialResult.DENIED:
            yield f"{where}answers, and denies {sample} (dry run): {trial.detail}"
        case TrialResult.NOT_CALLED:
            message = f"{where}{sample} {trial.detail} (dry run)"
            yield codes.WEBHOOK_NOT_CALLED.at("", message)
        case TrialResult.UNREACHABLE:
            remedy = codes.TRUST_CERTIFICATE if _UNTRUSTED in trial.detail else None
            yield codes.WEBHOOK_UNREACHABLE.at("", f"{where}{trial.detail}", remedy=remedy)
        case TrialResult.UNKNOWN:
            yield codes.WEBHOOK_NOT_TRIED.at("", f"{where}{trial.detail}")


def _check_unregistered(checked: CheckedState) -> Iterator[Result]:
    """Without the webhook for pods, name the namespaces whose pods depend on it."""
    state, scope = checked.state, checked.configuration.scope
    if state.installed.mutating is not None or isinstance(state.namespaces, Unread):
        return
    enforced = [
        name
        for name, labels in sorted(state.namespaces.items())
        if decide_namespace_scope(name, labels, scope).mode is Mode.ENFORCE
    ]
    if enforced:
        listed = list_some(enforced, _MOST_NAMES, "namespace")
        message = f"pods of {listed} are not translated: {KIND} {WEBHOOK_CONFIGURATION} is missing"
        yield codes.WEBHOOK_NOT_CALLED.at("", message)


# --- controller ----------------------------------------------------------------------------------


def check_facts(checked: CheckedState) -> Iterator[Result]:
    """Read the published facts as the webhook does."""
    state = checked.state
    live, name = need(state.installed.facts), f"{state.installed.namespace}/{FACTS_CONFIG_MAP}"
    if live is None:
        yield codes.FACTS_MISSING.at("", f"ConfigMap {name} not found")
        return
    try:
        facts = read_facts(msgspec.convert(dict(live), FactsConfigMap))
    except (PublishedFactsError, msgspec.ValidationError) as error:
        yield codes.FACTS_MISSING.at("", f"ConfigMap {name}: {error}")
        return
    changed = _last_change(live)
    age = f", changed {describe_seconds(state.now - changed)} ago" if changed else ""
    devices = sum(each.devices for each in facts.drivers)
    classes = count_noun(len(facts.classes), "class", "classes")
    yield f"ConfigMap {name}: {classes}, {count_noun(devices, 'device')}{age}"


def _last_change(live: Object) -> float | None:
    """Return the time of the last write; the metadata of managed fields has it."""
    metadata = as_mapping(live.get("metadata"))
    managed = as_list(metadata.get("managedFields"))
    times = [parse_time(get_value(each, ("time",))) for each in managed]
    times.append(parse_time(metadata.get("creationTimestamp")))
    return max((each.timestamp() for each in times if each is not None), default=None)


def check_replicas(checked: CheckedState) -> Iterator[Result]:
    """Compare the ready replicas of each Deployment with the wanted ones."""
    installed, ready = checked.state.installed, []
    needed = {WEBHOOK_DEPLOYMENT, CONTROLLER_DEPLOYMENT}
    if isinstance(installed.judge, Mapping):
        needed.add(JUDGE_DEPLOYMENT)
    if checked.configuration.placement is Placement.BRIDGE:
        needed.add(SCHEDULER_DEPLOYMENT)
    for name, live in installed.deployments.items():
        if isinstance(live, Unread):
            yield live
        elif live is None and name in needed:
            message = f"Deployment {installed.namespace}/{name} not found"
            remedy = "Install it: docs/installing.md, and docs/bridge.md for the scheduler."
            yield codes.REPLICAS_NOT_READY.at("", message, remedy=remedy)
        elif live is not None:
            count, wanted = (
                get_value(dict(live), path)
                for path in (("status", "readyReplicas"), ("spec", "replicas"))
            )
            told = f"{name} {count or 0} of {wanted}"
            if wanted and count == wanted:
                ready.append(told)
            else:
                yield codes.REPLICAS_NOT_READY.at("", f"{told} ready")
    if ready:
        yield f"ready: {', '.join(ready)}"


def check_leader(checked: CheckedState) -> Iterator[Result]:
    """Say which controller leads."""
    lease = checked.state.installed.lease
    yield _check_lease(CONTROLLER_LEASE, lease, codes.LEADER_MISSING, checked.state)


def check_scheduler(checked: CheckedState) -> Iterator[Result]:
    """With `placement: bridge`, say which scheduler leads; only its allocator allocates."""
    if checked.configuration.placement is Placement.BRIDGE:
        lease = checked.state.installed.scheduler_lease
        yield _check_lease(SCHEDULER_LEASE, lease, codes.SCHEDULER_MISSING, checked.state)


def _check_lease(
    bare: str, live: Object | Unread | None, missing: Code, state: ClusterState
) -> Result:
    name = f"{state.installed.namespace}/{bare}"
    if isinstance(live, Unread):
        return live
    renewed = last_renewal(live)
    holder = get_value(dict(live or {}), ("spec", "holderIdentity"))
    if renewed is None or not holder:
        return missing.at("", f"Lease {name} {'has no holder' if live else 'not found'}")
    if state.now - renewed > PATIENCE_SECONDS:
        ago = describe_seconds(state.now - renewed)
        return missing.at("", f"Lease {name} was last renewed {ago} ago, by {holder}")
    return f"{holder} leads"
