"""All checks of `drawbridge doctor`, in the order of their lines.

A check is one function. It yields a finding for each problem, or a text that says what is right. It
ends where it needs a part of the cluster that could not be read.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from cli.diagnosis import cluster, codes, installation, neighbours, remains
from cli.diagnosis.checked_state import Check, CheckedState, Result
from cli.diagnosis.line import DoctorLine, passed, report
from cli.diagnosis.state import PURPOSES
from cli.diagnosis.unread import NotReadError, Unread, need
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import has_errors
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding
from drawbridge.report.stuck.find import report_stuck


def check_state(checked: CheckedState) -> tuple[DoctorLine, ...]:
    """Return the lines of all checks; each problem has one line."""
    lines: list[DoctorLine] = []
    told: set[Finding] = set()
    unread: dict[Unread, list[str]] = {}  # the names of checks
    checks = CLUSTER_CHECKS | (INSTALLATION_CHECKS if checked.state.installed.exists else {})
    for name, check in (checks | CALLER_CHECKS).items():
        for result in _run(check, checked):
            if isinstance(result, Unread):
                unread.setdefault(result, []).append(name)
            elif isinstance(result, str):
                lines.append(passed(name, result))
            elif result not in told:
                told.add(result)
                mine = checked.state.operates or result.code in _REMEDIED_BY_ANYBODY
                remedy = result.remedy if mine else f"{_FOR_ANOTHER}{result.remedy}"
                lines.append(report(name, result, remedy))
    return (*lines, *_describe_unread(unread))


def _run(check: Check, checked: CheckedState) -> Iterator[Result]:
    """Yield the results of a check, and at last what it needs and could not be read."""
    try:
        yield from check(checked)
    except NotReadError as error:
        yield from error.parts


_MOST_STUCK: Final = 20
_FOR_ANOTHER: Final = "For the cluster administrator: "
_REMEDIED_BY_ANYBODY: Final = {codes.WEBHOOK_NOT_TRIED.name, codes.RIGHT_MISSING.name}


def _describe_unread(unread: dict[Unread, list[str]]) -> Iterator[DoctorLine]:
    """Yield a line for all that the caller may not read, and one for all other reasons."""
    for is_forbidden, remedy in ((True, None), (False, codes.CORRECT_WHAT_IS_NAMED)):
        checks = {k.reason: v for k, v in unread.items() if k.is_forbidden == is_forbidden}
        if checks:
            names = dict.fromkeys(name for each in checks.values() for name in each)
            message = f"{', '.join(names)}: {'; '.join(checks)}"
            finding = codes.NOT_CHECKED.at("", message, remedy=remedy)
            yield report("not checked", finding, finding.remedy)


def check_configuration(checked: CheckedState) -> Iterator[Result]:
    """Say what is wrong with the configuration of the installation."""
    for located in checked.configuration_findings:
        place = f"{located.source}:{located.line}" if located.line else located.source
        message = ": ".join(filter(None, (place, located.finding.message)))
        yield msgspec.structs.replace(located.finding, message=message)
    if has_errors(checked.configuration_findings):
        yield "the other checks use the defaults"


def check_installed(checked: CheckedState) -> Iterator[Result]:
    """Say whether there is an installation; without one, its checks say nothing."""
    if not checked.state.installed.exists:
        yield codes.NOT_INSTALLED.at("", "no webhook configuration and no Deployment of Drawbridge")


def check_rights(checked: CheckedState) -> Iterator[Result]:
    """Say what the caller may do in the cluster and in the own namespace."""
    namespace = checked.state.namespace
    for purpose in PURPOSES:
        missing = checked.state.missing_rights.get(purpose.text, ())
        where = f" in namespace {namespace}" if purpose.rights[0].namespaced else ""
        if not missing:
            yield f"you may {purpose.text}{where}"
            continue
        lacking = ", ".join(map(str, missing))
        message = f"you may not {lacking}{where}, so you cannot {purpose.text}"
        remedy = f"Ask the cluster administrator for {purpose.role}."
        yield codes.RIGHT_MISSING.at("", message, remedy=remedy)


def check_stuck(checked: CheckedState) -> Iterator[Result]:
    """Say which claims, pods and namespaces do not go on, and who holds them."""
    read = need(checked.state.stuck)
    yield from (each.finding for each in read.findings)
    told = [*apply_policies(report_stuck(read.stuck), checked.configuration.findings)]
    for finding in told[:_MOST_STUCK]:
        yield msgspec.structs.replace(finding, message=f"{finding.object}: {finding.message}")
    if len(told) > _MOST_STUCK:
        yield f"{count_noun(len(told) - _MOST_STUCK, 'more object')}; `drawbridge audit` lists all"
    if not told:
        yield "no claim, pod or namespace with devices"


CLUSTER_CHECKS: Final[dict[str, Check]] = {
    "installation": check_installed,
    "remains": remains.check_remains,
    "configuration": check_configuration,
    "API server": cluster.check_version,
    "claim fields": cluster.check_fields,
    "drivers": cluster.check_drivers,
    "DeviceClasses": cluster.check_classes,
    "configured classes": cluster.check_targets,
    "quotas": cluster.check_quotas,
    "ResourceSlices": cluster.check_slices,
    "nodes": cluster.check_nodes,
    "owned nodes": cluster.check_fence,
    "stuck": check_stuck,
    "Kueue": cluster.check_queues,
    "autoscalers": neighbours.check_autoscalers,
    "GPU Operator": neighbours.check_gpu_operator,
}
INSTALLATION_CHECKS: Final[dict[str, Check]] = {
    "webhook registration": installation.check_registration,
    "webhook certificate": installation.check_certificates,
    "replicas": installation.check_replicas,
    "namespaces": installation.check_scope,
    "placement": installation.check_placement,
    "webhook": installation.check_answers,
    "facts": installation.check_facts,
    "controller": installation.check_leader,
    "scheduler": installation.check_scheduler,
    "gangs": cluster.check_gangs,
}
CALLER_CHECKS: Final[dict[str, Check]] = {"your rights": check_rights}
