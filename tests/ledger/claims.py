"""Claims in one line for the tests of the ledger: `claim("a", 3, "gpu-0", "nic:s1=4G")`."""

from drawbridge.dra.allocation import AllocatedDevices, Allocation, AllocationResult, ClaimStatus
from drawbridge.dra.claim import Claim, ClaimMetadata
from drawbridge.dra.quantity import parse

DRIVER, POOL = "d.io", "p"


def result(text: str) -> AllocationResult:
    """Read `device`, `device!` (admin access), `device:share` or `device:share=amount`.

    A device of another pool is written `pool/device`.
    """
    where, _, share = text.partition(":")
    share_id, _, amount = share.partition("=")
    pool, slash, device = where.rpartition("/")
    return AllocationResult(
        request="r",
        driver=DRIVER,
        pool=pool if slash else POOL,
        device=device.removesuffix("!"),
        admin_access=device.endswith("!"),
        share_id=share_id or None,
        consumed_capacity={"bandwidth": parse(amount)} if amount else {},
    )


def allocation(*results: str) -> Allocation:
    return Allocation(AllocatedDevices(tuple(map(result, results))))


def claim(uid: str, version: int, *results: str, mark: str | None = None) -> Claim:
    """A claim that holds `results`; without any it is not allocated."""
    metadata = ClaimMetadata(
        name=f"claim-{uid}",
        namespace="default",
        uid=uid,
        resource_version=f"{version}" if version else "",
        annotations={} if mark is None else {"drawbridge.dev/allocation": mark},
    )
    held = allocation(*results) if results else None
    return Claim(metadata=metadata, status=ClaimStatus(allocation=held))
