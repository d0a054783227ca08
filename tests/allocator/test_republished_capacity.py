"""What a driver publishes of devices in use takes no room of quotas from others."""

from collections.abc import Callable

import pytest

from drawbridge.dra.slices import Slice
from tests.allocator.clusters import Cluster, claim, gpu_slice
from tests.allocator.test_quotas import MEMORY, limit, used
from tests.allocator.test_quotas_of_vanished_pods import SECONDS, running
from tests.tables import every_row

TOTAL = "400Gi"


def publish(generation: int, memory: str) -> Slice:
    return gpu_slice("n1", 1, generation=generation, capacity={"memory": {"value": memory}})


def allocated() -> Cluster:
    """A cluster in which a pod has a device of 80Gi."""
    quotas = [limit({MEMORY: TOTAL}, together=True)]
    cluster = Cluster(publish(1, "80Gi"), quotas=quotas, vanished_seconds=SECONDS, n1=0)
    assert cluster.schedule("a", claim("c-a")) == "n1"
    return cluster


def keep(cluster: Cluster) -> Cluster:
    cluster.write("a")
    return cluster


def leave_reserved(cluster: Cluster) -> Cluster:
    return cluster


def vanish(cluster: Cluster) -> Cluster:
    """Delete the pod with force, after the device was published as larger."""
    cluster.write("a")
    cluster.state.apply(publish(1, "80Gi"), publish(2, "300Gi"))
    cluster.state.apply(None, running("a"))
    cluster.state.apply(running("a"), None)
    cluster.delete_claim("c-a")
    cluster.state.vanished.observe_time(cluster.now)
    return cluster


def decide_anew(cluster: Cluster) -> Cluster:
    """Build the decisions anew, after the device was published as larger."""
    cluster.write("a")
    larger = publish(2, "300Gi")
    cluster.state.apply(publish(1, "80Gi"), larger)
    quotas = cluster.state.ledger.quotas.quotas
    again = Cluster(larger, quotas=quotas, vanished_seconds=SECONDS, n1=0)
    for each in cluster.state.claims.values():
        again.state.apply(None, each)
    again.state.take_over(cluster.state)
    return again


def withdraw_and_decide_anew(cluster: Cluster) -> Cluster:
    """Build the decisions anew while the device is not published."""
    cluster.write("a")
    cluster.state.apply(publish(1, "80Gi"), None)
    again = Cluster(quotas=cluster.state.ledger.quotas.quotas, vanished_seconds=SECONDS)
    for each in cluster.state.claims.values():
        again.state.apply(None, each)
    again.state.take_over(cluster.state)
    assert used(again) == [f"80Gi/{TOTAL}"]
    return again


@pytest.mark.parametrize(
    "then", [keep, leave_reserved, vanish, decide_anew, withdraw_and_decide_anew]
)
@every_row(
    ("memory", "expected"),
    [
        (["1000Ti"], "80Gi"),
        (["1e1000"], "80Gi"),
        (["40Gi"], "40Gi"),
        (["40Gi", "1000Ti"], "80Gi"),
        (["40Gi", ""], "80Gi"),
    ],
)
def test_a_device_in_use_counts_at_most_what_it_had(
    memory: list[str], expected: str, *, then: Callable[[Cluster], Cluster]
) -> None:
    cluster = then(allocated())
    for number, size in enumerate(memory, 3):
        after = publish(number, size) if size else None
        cluster.state.apply(publish(number - 1, "80Gi"), after)
    assert used(cluster) == [f"{expected}/{TOTAL}"]


def test_a_device_that_another_pod_gets_counts_what_it_has_then() -> None:
    cluster = allocated()
    cluster.state.ledger.rollback(["c-a"])
    cluster.state.apply(publish(1, "80Gi"), publish(2, "300Gi"))
    assert cluster.schedule("b", claim("c-b")) == "n1"
    assert used(cluster) == [f"300Gi/{TOTAL}"]


def test_a_plan_counts_what_devices_in_use_had() -> None:
    cluster = keep(allocated())
    cluster.state.apply(publish(1, "80Gi"), publish(2, "1000Ti"))
    copy = cluster.state.ledger.quotas.without_claims()
    assert copy.capacities_of("c-a") == cluster.state.ledger.quotas.capacities_of("c-a")


def test_a_message_has_no_amount_of_1000_digits() -> None:
    cluster = Cluster(publish(1, "1e1000"), quotas=[limit({MEMORY: TOTAL})], n1=0)
    message = cluster.prefilter("a", claim("c-a")).message
    assert message.endswith("and the pod asks for 9223372036854775807"), message
