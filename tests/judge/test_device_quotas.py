"""Objects that a device quota of the configuration has no room for."""

from typing import Any

from msgspec.structs import replace

from drawbridge.dra.claim import Claim, Template, read_claim, read_template
from drawbridge.dra.device_quotas import DeviceQuota, QuotaKey
from drawbridge.dra.quantity import Quantity
from drawbridge.finding import Severity
from drawbridge.judge.claims.device_quotas import check_device_quotas
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import Subject, claim_subject, template_subject
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.quota_use import QuotaUse
from tests.judge.contexts import class_context

DEVICES = QuotaKey("gpu.nvidia.com", "devices")
METADATA = {"name": "a", "namespace": "ns"}


def quotas(total: int, single: int = 9) -> QuotaUse:
    limits = ({DEVICES: Quantity.of(single)}, {DEVICES: Quantity.of(total)})
    return QuotaUse([DeviceQuota("q", lambda name, _: name == "ns", *limits)])


def context(use: QuotaUse) -> JudgeContext:
    return replace(class_context({}), lookups=ObjectLookups(device_quotas=use))


def spec(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim(count: int, **metadata: str) -> Claim:
    read = read_claim({"metadata": {**METADATA, **metadata}, "spec": spec(count)})
    assert isinstance(read, Claim)
    return read


def template(count: int) -> Template:
    read = read_template({"metadata": METADATA, "spec": {"spec": spec(count)}})
    assert isinstance(read, Template)
    return read


def answer(subject: Subject, use: QuotaUse) -> list[tuple[str, Severity, str]]:
    findings = check_device_quotas(subject, context(use))
    return [(each.code, each.severity, each.message) for each in findings]


def test_an_object_that_never_fits_is_an_error() -> None:
    text = (
        "quota q allows a pod of namespace ns 2 devices of class gpu.nvidia.com, and the pod asks "
        "for 3"
    )
    expected = [("DeviceQuotaTooSmall", Severity.ERROR, text)]
    assert answer(claim_subject(claim(3)), quotas(8, 2)) == expected
    assert answer(template_subject(template(3)), quotas(8, 2)) == expected
    assert answer(claim_subject(claim(2)), quotas(8, 2)) == []


def test_an_object_that_does_not_fit_now_is_a_warning() -> None:
    use = quotas(4)
    use.charge("other", "ns", {DEVICES: Quantity.of(3)})
    text = "quota q: namespace ns uses 3 of 4 devices of class gpu.nvidia.com, and the pod needs 2"
    expected = [("DeviceQuotaUsedUp", Severity.WARNING, text)]
    assert answer(template_subject(template(2)), use) == expected
    assert answer(template_subject(template(1)), use) == []


def test_a_claim_that_has_devices_counts_once() -> None:
    use, own = quotas(4), claim(3, uid="u")
    use.charge(uid_of(own), "ns", {DEVICES: Quantity.of(3)})
    assert answer(claim_subject(own), use) == []


def test_a_quota_of_other_namespaces_does_not_matter() -> None:
    assert answer(claim_subject(claim(3, namespace="other")), quotas(1)) == []


def test_without_quotas_nothing_is_asked() -> None:
    assert answer(claim_subject(claim(3)), QuotaUse()) == []


def test_the_question_is_part_of_a_judgement() -> None:
    codes = {each.code for each in judge_subject(claim_subject(claim(3)), context(quotas(1)))}
    assert "DeviceQuotaTooSmall" in codes
