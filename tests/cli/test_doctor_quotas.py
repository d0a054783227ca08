"""`drawbridge doctor` about quotas, for a person who may read only a part."""

from pathlib import Path

from tests.cli.installed_api import CONFIGURATION
from tests.cli.test_doctor import QUOTA_OF_TWO, configure, doctor
from tests.cluster.fake.api import FakeApi


def test_namespaces_that_a_person_may_not_list_are_not_missing(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        configure(f"{CONFIGURATION}{QUOTA_OF_TWO}")(api)
        api.denied |= {"namespaces"}

    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    assert diagnosis.of("quotas") == []
    (unread,) = (each for each in diagnosis.lines if each["code"] == "NotChecked")
    assert "quotas" in unread["message"]
    assert "you may not list namespaces" in unread["message"]
