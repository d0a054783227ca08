"""The priority of a pod: from its spec, its PriorityClass or the default class."""

from drawbridge.dra.claim import ClaimMetadata
from drawbridge.dra.decode import Metadata
from drawbridge.ledger.pods import Pod, PodSpec
from drawbridge.ledger.priorities import Priorities, Priority, PriorityClass
from tests.tables import every_row


def priority_class(
    name: str, value: int, policy: str | None = None, *, default: bool = False
) -> PriorityClass:
    return PriorityClass(
        metadata=Metadata(name), value=value, global_default=default, preemption_policy=policy
    )


CLASSES = Priorities(
    [
        priority_class("high", 1000),
        priority_class("patient", 1000, "Never"),
        priority_class("usual", 7, default=True),
        priority_class("other", 5, default=True),
    ]
)


@every_row(
    ("spec", "expected"),
    [
        (PodSpec(), Priority(5)),
        (PodSpec(priority_class_name="high"), Priority(1000)),
        (PodSpec(priority_class_name="patient"), Priority(1000, may_preempt=False)),
        (PodSpec(priority_class_name="patient", preemption_policy="PreemptLowerPriority"),
         Priority(1000)),
        (PodSpec(priority_class_name="high", preemption_policy="Never"),
         Priority(1000, may_preempt=False)),
        (PodSpec(priority=3, priority_class_name="gone"), Priority(3)),
        (PodSpec(priority=0), Priority(0)),
        (PodSpec(priority_class_name="system-node-critical"), Priority(2_000_001_000)),
        (PodSpec(priority_class_name="gone"), None),
    ],
)  # fmt: skip
def test_the_priority_is_the_one_that_the_api_server_sets(
    spec: PodSpec, expected: Priority | None
) -> None:
    assert CLASSES.find(Pod(metadata=ClaimMetadata("a"), spec=spec)) == expected


def test_without_a_default_class_the_priority_is_zero() -> None:
    assert Priorities().find(Pod(metadata=ClaimMetadata("a"))) == Priority(0)
