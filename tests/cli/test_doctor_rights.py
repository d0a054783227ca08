"""What `drawbridge doctor` says of parts that it cannot read."""

from pathlib import Path

from drawbridge.names import NAMESPACE
from tests.cli.test_doctor import doctor
from tests.cli.test_few_rights import role
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.rights import Rights
from tests.tables import every_row


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


@every_row(
    ("labels", "told"),
    [
        ({"drawbridge.dev/translate": "enforce"}, "1 of 1 namespace that you may read in mode"),
        ({}, "0 of 1 namespace that you may read are opted in"),
    ],
)
def test_namespaces_that_may_not_be_read_are_not_counted(
    labels: dict[str, str], told: str, tmp_path: Path
) -> None:
    own = {"kind": "Namespace", "metadata": {"name": "default", "labels": labels}}

    def close(api: FakeApi) -> None:
        api.put({"apiVersion": "v1", **own})
        api.rights = Rights([role("default", ("namespaces",))], NAMESPACE)
        api.denied |= {"namespaces"}

    diagnosis = doctor(tmp_path, "-o", "json", change=close)
    (line,) = diagnosis.of("namespaces")
    assert line["message"].startswith(told)
    (rights,) = (e for e in diagnosis.of("your rights") if "list namespaces" in e["message"])
    assert "Role drawbridge-reader is enough" in rights["remedy"]
