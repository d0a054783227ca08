"""What `drawbridge doctor` says of parts that it cannot read."""

from pathlib import Path

from tests.cli.test_doctor import doctor
from tests.cluster.fake.api import FakeApi


def test_a_person_with_few_rights_gets_one_line_for_all_that_is_not_checked(tmp_path: Path) -> None:
    closed = ("nodes", "namespaces", "resourceslices", "deviceclasses", "configmaps", "leases",
              "webhookconfigurations", "resourceclaimtemplates")  # fmt: skip

    def close(api: FakeApi) -> None:
        for part in closed:
            api.fail(403, part=part, times=99, message=f"{part} is forbidden")
        api.denied |= {"nodes", "resourceclaimtemplates"}

    diagnosis = doctor(tmp_path, "-o", "json", change=close)
    assert (diagnosis.code, diagnosis.err) == (0, "")
    (unread,) = (each for each in diagnosis.lines if each["code"] == "NotChecked")
    names, _, reasons = unread["message"].partition(": ")
    checks = {"claim fields", "drivers", "DeviceClasses", "configured classes", "ResourceSlices",
              "nodes", "replicas", "webhook registration", "namespaces", "facts",
              "controller", "GPU Operator", "stuck"}  # fmt: skip
    assert set(names.split(", ")) == checks
    assert {"you may not create resourceclaimtemplates", "you may not list nodes"} <= set(
        reasons.split("; ")
    )
    rights = [each["message"] for each in diagnosis.of("your rights")]
    assert rights[0].startswith("you may not list nodes, list resourceclaimtemplates")
    assert "create resourceclaimtemplates.resource.k8s.io in namespace default" in rights[2]


def test_a_namespace_that_does_not_exist_is_no_missing_right(tmp_path: Path) -> None:
    def forget(api: FakeApi) -> None:
        message = 'namespaces "nope" not found'
        api.fail(404, method="POST", part="/namespaces/nope/", times=99, message=message)

    diagnosis = doctor(tmp_path, "-n", "nope", "-o", "json", change=forget)
    (unread,) = (each for each in diagnosis.lines if each["code"] == "NotChecked")
    assert unread["message"] == 'claim fields: namespaces "nope" not found'
    assert unread["remedy"].startswith("Correct what the message names")
