"""Scenarios: `drawbridge doctor` on an installation, healthy and broken."""

import json
from typing import Any

from e2e.installed.installation import NAMESPACE, Installation, installed
from e2e.scenarios.admission import NEEDS, add_gpu_node, prepare_pod
from e2e.scenarios.configuration import condition, refused
from e2e.scenarios.people import Person
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

Line = dict[str, Any]


def examine(cluster: Installation, *words: str) -> tuple[int, dict[str, list[Line]]]:
    """Run doctor as the administrator; return the exit code and the lines by check."""
    done = cluster.drawbridge("doctor", *words, "-o", "json")
    return done.code, by_check(done.out)


def by_check(text: str) -> dict[str, list[Line]]:
    """Sort the lines of the JSON output by check."""
    by_check: dict[str, list[Line]] = {}
    for line in json.loads(text)["checks"]:
        by_check.setdefault(line["check"], []).append(line)
    return by_check


def unread_checks(lines: dict[str, list[Line]]) -> set[str]:
    """Return the checks that the caller may not make."""
    names, _, _ = lines["not checked"][0]["message"].partition(": ")
    return set(names.split(", "))


@scenario("full", rig="installed", needs=NEEDS)
def doctor_names_the_part_of_an_installation_that_is_broken(stage: Stage) -> None:
    """All checks of a healthy installation pass; then the webhook does not answer."""
    cluster, _, _ = prepare_pod(stage)
    inside = ("-n", stage.namespace)
    code, lines = examine(cluster, *inside)
    wrong = [each for part in lines.values() for each in part if each["status"] == "error"]
    assert (code, wrong) == (0, []), wrong
    told = {check: part[0]["message"] for check, part in lines.items()}
    assert f"namespace {stage.namespace}: translates" in told["webhook"], told
    assert "valid certificate" in told["webhook certificate"], told
    assert "gpu.nvidia.com" in told["drivers"], told
    assert told["controller"].endswith("leads"), told
    assert "exactly.capacity" in told["claim fields"], told
    assert all(each["status"] == "ok" for each in lines["your rights"]), lines
    for replica in cluster.webhooks:
        replica.stop()
    try:
        code, lines = examine(cluster, *inside)
        assert [each["code"] for each in lines["webhook"]] == ["WebhookUnreachable"], lines
        assert code == 1
    finally:
        cluster.start_all()


@scenario("full", rig="installed", needs=NEEDS)
def doctor_goes_on_after_a_refused_configuration(stage: Stage) -> None:
    """One line says that the last valid one is in use, and the other checks are made with it."""
    cluster, _, _ = prepare_pod(stage)
    header = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
    with refused(stage, f"{header}placement: natve\n"):
        stage.wait("it is refused", lambda: condition(stage).get("status") == "False")
        code, lines = examine(cluster, "-n", stage.namespace)
        (rejected,) = lines["configuration"]
        assert "the last valid one stays in use" in rejected["message"], lines
        assert "natve" in rejected["message"], lines
        assert "translates" in lines["webhook"][0]["message"], lines
        assert code == 0


@scenario("full", rig="installed", needs=NEEDS)
def doctor_tells_a_tenant_what_it_may_not_read(stage: Stage) -> None:
    """A viewer of one namespace gets a line for each part, and no failure."""
    viewer = Person(stage, installed(stage), "doctor-viewer")
    viewer.bind("ClusterRole", "view", stage.namespace)
    inside = f"--namespace={stage.namespace}"
    stage.wait("the right", lambda: viewer.can("get", "resourceclaimtemplates", inside))
    done = viewer.drawbridge("doctor", "-n", stage.namespace, "-o", "json").check()
    lines = by_check(done.out)
    assert {"drivers", "nodes", "webhook registration", "facts"} <= unread_checks(lines), lines
    rights = {each["message"].partition(",")[0]: each["status"] for each in lines["your rights"]}
    assert rights[f"you may explain pods in namespace {stage.namespace}"] == "ok", rights
    assert done.code == 0, done


@scenario("full", rig="installed", needs=NEEDS)
def a_reader_of_the_installation_gets_every_line_of_doctor_but_the_dry_runs(stage: Stage) -> None:
    """The roles for readers suffice for all that is not a dry run."""
    cluster = installed(stage)
    add_gpu_node(stage)
    reader = Person(stage, cluster, "doctor-reader")
    reader.bind("ClusterRole", "drawbridge-reader")
    reader.bind("Role", "drawbridge-reader", NAMESPACE)
    try:
        stage.wait("the right", lambda: reader.can("list", "resourceslices"))
        done = reader.drawbridge("doctor", "-o", "json").check()
        lines = by_check(done.out)
        assert unread_checks(lines) == {"claim fields"}, lines
        assert lines["webhook"][0]["code"] == "WebhookNotTried", lines
    finally:
        reader.unbind("drawbridge-reader")
