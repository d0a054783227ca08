"""`drawbridge off`: switches all webhooks off, so that pods are created as without Drawbridge.

Needs no process of Drawbridge. The labels of the namespaces stay, so `drawbridge on` restores what
was in force, namespace by namespace. Repeating the command is harmless.
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.input import codes, live_cluster
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, add_shared_options
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.agreement.scope import Mode
from drawbridge.agreement.switch import SWITCHED, compose_switch
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.finding import Finding
from drawbridge.names import SWITCH_FIELD_MANAGER, TRANSLATE_LABEL
from drawbridge.translate.changes.scheduler import OURS

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

EXIT_CODES = {
    DONE: "all webhooks are switched off",
    BAD: "a webhook is not switched off, or bad input",
}
_CONFLICT: Final = 409
_ATTEMPTS: Final = 5
_MOST_SHOWN: Final = 20
# Pods of the scheduler of Drawbridge without a node.
_WAITING: Final = f"spec.schedulerName={OURS},spec.nodeName="


class Switched(NamedTuple):
    """What changed, the namespaces by mode, what failed, and the pods that wait."""

    lines: tuple[str, ...]
    namespaces: Mapping[Mode, tuple[str, ...]]
    findings: tuple[Finding, ...]
    any_webhook: bool  # whether any exists that is as wanted now
    waiting: tuple[Mapping[str, Value], ...] = ()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, and what happens to pods that wait."""
    add_shared_options(parser, *LIVE)
    parser.add_argument(
        "--recreate",
        action="store_true",
        help=f"delete pods that wait for the scheduler {OURS}, if their owner creates them again",
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Switch off, and say what is off and which pods wait."""

    async def switch(session: "Session") -> Switched:
        switched = await switch_webhooks(session, off=True)
        return await _with_waiting_pods(session, switched, recreate=options.recreate)

    switched = live_cluster.run_with_session(options, switch)
    return print_switched(switched, _describe(switched), streams)


def print_switched(switched: Switched, more: Iterator[str], streams: Streams) -> int:
    """Print what changed, and return the exit code."""
    output.write_lines((*switched.lines, *more), streams.out)
    streams.out.flush()
    output.print_findings([LocatedFinding(each) for each in switched.findings], streams.err)
    return BAD if switched.findings else DONE


# --- webhooks ------------------------------------------------------------------------------------


async def switch_webhooks(session: "Session", *, off: bool) -> Switched:
    """Switch the webhooks that exist; one that cannot be changed does not stop the others."""
    lines: list[str] = []
    findings: list[Finding] = []
    any_webhook = False
    for plural, name in SWITCHED if off else reversed(SWITCHED):
        about = f"{plural}/{name}"
        try:
            outcome = await _switch_configuration(session, plural, name, off=off)
        except ApiError as error:
            findings.append(_report(error, about, "webhooks"))
        else:
            lines.append(f"{about}: {outcome or 'does not exist'}")
            any_webhook = any_webhook or bool(outcome)
    namespaces = await _list_namespaces(session)
    return Switched(tuple(lines), namespaces, tuple(findings), any_webhook)


def _report(error: ApiError, about: str, path: str = "") -> Finding:
    remedy = codes.ASK_TO_SWITCH if error.forbidden else None
    return codes.SWITCH_INCOMPLETE.at(path, error.describe(), object=about, remedy=remedy)


async def _switch_configuration(session: "Session", plural: str, name: str, *, off: bool) -> str:
    """Switch one configuration, and give up the ownership of what the patch wrote.

    Return what it is now; empty if it does not exist.
    """
    from controller.field_ownership import release_fields  # noqa: PLC0415  # loaded on demand
    from drawbridge.cluster.client import ResourceClient, decode_object  # noqa: PLC0415  # the same

    kinds = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    (resource,) = (each for each in kinds if each.plural == plural)
    client = ResourceClient(session, resource, decode_object, manager=SWITCH_FIELD_MANAGER)
    state = "off" if off else "on"
    for _ in range(_ATTEMPTS):
        live = await client.read(name)
        if live is None:
            return ""
        try:
            if (patch := compose_switch(live, off=off)) is not None:
                live = await client.merge(name, patch)
        except ApiError as error:
            # Another client, such as the controller, wrote meanwhile.
            if error.code != _CONFLICT:
                raise
            continue
        # An upgrade that removes a webhook would fail on a condition that a manager owns.
        await release_fields(client, live, SWITCH_FIELD_MANAGER)
        return f"{count_noun(len(live['webhooks']), 'webhook')} {state}"
    raise ApiError(_CONFLICT, "Conflict", f"{name} changes all the time")


async def _list_namespaces(session: "Session") -> Mapping[Mode, tuple[str, ...]]:
    """Return the labelled namespaces by mode; none where they cannot be read."""
    namespaces: dict[Mode, tuple[str, ...]] = {}
    for mode in (Mode.ENFORCE, Mode.REPORT):
        selector = f"{TRANSLATE_LABEL}={mode}"
        try:
            listed = await live_cluster.list_objects(session, resources.NAMESPACES, labels=selector)
        except ApiError:
            continue
        namespaces[mode] = tuple(
            sorted(f"{get_value(each, ('metadata', 'name'))}" for each in listed)
        )
    return namespaces


def describe_namespaces(switched: Switched) -> Iterator[str]:
    """Say which namespaces have which mode."""
    for mode, names in switched.namespaces.items():
        shown = f" ({list_some(names, _MOST_SHOWN, 'namespace')})" if names else ""
        yield f"{mode}: {count_noun(len(names), 'namespace')}{shown}"


# --- pods that wait ------------------------------------------------------------------------------


async def _with_waiting_pods(session: "Session", switched: Switched, *, recreate: bool) -> Switched:
    """Add the pods that wait for our scheduler; with `recreate`, delete those with an owner."""
    from drawbridge.cluster.client import ResourceClient, decode_object  # noqa: PLC0415  # the same

    client = ResourceClient(session, resources.PODS, decode_object)
    lines, findings = list(switched.lines), list(switched.findings)
    try:
        waiting = await live_cluster.list_all(partial(client.iterate, fields=_WAITING))
    except ApiError as error:
        return switched._replace(findings=(*findings, _report(error, "pods")))
    left = []
    for pod in waiting:
        metadata = pod["metadata"]
        if not (recreate and _has_owner(pod)):
            left.append(pod)
            continue
        try:
            await client.delete(metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except ApiError as error:
            left.append(pod)
            about = f"Pod/{metadata['namespace']}/{metadata['name']}"
            findings.append(_report(error, about))
    if deleted := len(waiting) - len(left):
        lines.append(f"{count_noun(deleted, 'pod')} deleted, which their owners create again")
    return switched._replace(lines=tuple(lines), waiting=tuple(left), findings=tuple(findings))


def _has_owner(pod: Mapping[str, Value]) -> bool:
    owners = as_list(get_value(dict(pod), ("metadata", "ownerReferences")))
    return any(get_value(each, ("controller",)) is True for each in owners)


def _describe(switched: Switched) -> Iterator[str]:
    yield from describe_namespaces(switched)
    if switched.any_webhook:
        yield "Namespaces keep their labels; `drawbridge on` switches on again."
    owned = [pod for pod in switched.waiting if _has_owner(pod)]
    bare = [pod for pod in switched.waiting if not _has_owner(pod)]
    if not switched.waiting:
        return
    verb = "waits" if len(switched.waiting) == 1 else "wait"
    yield (
        f"{count_noun(len(switched.waiting), 'pod')} {verb} for the scheduler {OURS}. "
        "If it does not run, create them again:"
    )
    if owned:
        yield f"    drawbridge off --recreate  # {count_noun(len(owned), 'pod')} with an owner"
    for pod in bare[:_MOST_SHOWN]:
        path = (get_value(dict(pod), ("metadata", key)) for key in ("namespace", "name"))
        namespace, name = (shlex.quote(f"{each}") for each in path)
        yield (
            f"    kubectl -n {namespace} get pod {name} -o yaml | drawbridge undo -f - "
            "| kubectl replace --force -f -"
        )
    if (more := len(bare) - _MOST_SHOWN) > 0:
        yield f"    and {count_noun(more, 'more pod')} without an owner"
