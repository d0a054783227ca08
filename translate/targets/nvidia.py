"""gpu.nvidia.com: whole GPUs, MIG partitions, passthrough, and GPUs shared by the driver.

The driver counts what is shared and enforces nothing. How it shares is published with each
product; the configuration says it where no product is known.
"""

from decimal import Decimal

import msgspec

from dra.finding import Finding
from facts.model import Product
from translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Percent
from translate.legacy.selectors import Memory
from translate.targets import codes
from translate.targets.plan import DevicePlan, DriverTarget, RequestedAmount, Sharing, make_finding
from translate.targets.products import capacity_value, filter_products
from translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    format_bytes,
    make_vocabulary,
    write_cel,
)

DRIVER = "gpu.nvidia.com"
MIG = "mig.nvidia.com"
VFIO = "vfio.gpu.nvidia.com"
MEMORY, SHARES = "memory", "shares"
WHOLE = 100
# What whole GPUs and partitions publish alike; a passthrough device has the product alone.
_ALWAYS = ("product", "architecture", "compute", "driver_version", "cuda_version", "memory")


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain."""
    said = {
        "product": "productName",
        "architecture": "architecture",
        "compute": "cudaComputeCapability",
        "driver_version": "driverVersion",
        "cuda_version": "cudaDriverVersion",
        "memory": MEMORY,
        # Whole GPUs have the first, and static partitions; partitions have the others.
        "uuid": "uuid",
        "profile": "profile",
        "parent": "parentUUID",
    }
    full = {word: f"{domain}/{name}" for word, name in said.items()}
    return make_vocabulary(full, always=frozenset(full[word] for word in _ALWAYS))


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    if ask.passthrough:
        return _passthrough(ask, aim)
    if ask.share and ask.share.isolation is Isolation.MIG and ask.share.memory is not None:
        return _large_enough(ask, ask.share, aim)
    if ask.partition:
        return _partition(ask, aim)
    if ask.share is None:
        return _whole(ask, aim)
    return _shared(ask, ask.share, aim)


def _partition(ask: Ask, aim: DriverTarget) -> DevicePlan:
    losses: tuple[Finding, ...] = ()
    if ask.share is not None:
        message = f"a share of a partition takes the whole partition on {aim.driver}"
        losses = (make_finding(codes.SHARE_WHOLE, ask, message),)
    return DevicePlan(
        class_=aim.offers(MIG),
        wanted=ask.selectors,
        words=_surely(aim.words, "profile"),
        parent=aim.words.parent,
        losses=losses,
    )


def _surely(words: DriverVocabulary, name: str) -> DriverVocabulary:
    """The words for devices that surely publish one more attribute."""
    surely: str = getattr(words, name)
    return msgspec.structs.replace(words, always=words.always | {surely})


def _passthrough(ask: Ask, aim: DriverTarget) -> DevicePlan:
    # Of what selectors ask, it publishes uuid and product alone.
    bare = DriverVocabulary(product=aim.words.product, uuid=aim.words.uuid)
    return DevicePlan(class_=aim.offers(VFIO), wanted=ask.selectors, words=bare)


def sharing_modes(products: tuple[Product, ...], aim: DriverTarget) -> set[str | int]:
    """How the products are shared; the configuration's word where none is known."""
    return {_mode(each) for each in products} or {aim.sharing}


def _mode(product: Product) -> str | int:
    if not product.shared:
        return Sharing.NONE
    if SHARES in product.capacity:
        return capacity_value(product, SHARES)
    memory = product.capacity.get(MEMORY)
    return Sharing.UNLIMITED if memory and memory.default == "0" else Sharing.MEMORY


def _handed_out(aim: DriverTarget) -> tuple[Product, ...]:
    """The products of whole GPUs; without shared ones where the cluster hands out no shares."""
    shares = aim.facts is None or aim.facts.keeps("exactly.capacity")
    return tuple(each for each in aim.products(types=("gpu",)) if shares or not each.shared)


def _whole(ask: Ask, aim: DriverTarget) -> DevicePlan:
    products = _handed_out(aim)
    found = sharing_modes(filter_products(products, ask.selectors, MEMORY), aim)
    selectors: tuple[str, ...] = ()
    amounts: dict[str, RequestedAmount] = {}
    losses: tuple[Finding, ...] = ()
    # Whose memory is shared has all of it by default, and then nobody else fits on it.
    counted = found - {Sharing.NONE, Sharing.MEMORY}
    if counted and Sharing.NONE in found:
        selectors = ("device.allowMultipleAllocations == false",)
        found = {Sharing.NONE}
    elif len(found) == 1 and isinstance(only := next(iter(found)), int):
        amounts = {SHARES: str(only)}
        if products:
            amounts[MEMORY] = Percent(Decimal(100))
    elif counted:
        message = f"{aim.driver} shares its devices with no limit that keeps others off"
        losses = (make_finding(codes.EXCLUSIVITY_LOST, ask, message),)
    if counted:
        aim.keeps("exactly.capacity")
    return DevicePlan(
        class_=aim.offers(aim.class_),
        selectors=selectors,
        wanted=ask.selectors,
        words=_surely(aim.words, "uuid"),
        amounts=amounts,
        percent_of=products,
        distinct="" if found == {Sharing.NONE} else aim.words.uuid,
        losses=losses,
    )


def _shared(ask: Ask, share: DeviceShare, aim: DriverTarget) -> DevicePlan:
    known = filter_products(aim.products(types=("gpu",)), ask.selectors, MEMORY)
    sharing = tuple(each for each in known if each.shared)
    found = sharing_modes(sharing, aim) if sharing or not known else {Sharing.NONE}
    if found == {Sharing.NONE}:
        raise NotExpressibleError(f"{aim.driver} does not share its devices")
    if len(found) > 1:
        raise NotExpressibleError(f"{aim.driver} shares its devices in more than one way")
    aim.keeps("exactly.capacity")
    mode = next(iter(found))
    amounts, losses = _amounts(ask, share, mode, aim)
    mixed = len(sharing) < len(known)
    return DevicePlan(
        class_=aim.offers(aim.class_),
        selectors=("device.allowMultipleAllocations == true",) if mixed else (),
        wanted=ask.selectors,
        words=_surely(aim.words, "uuid"),
        amounts=amounts,
        percent_of=sharing,
        distinct=aim.words.uuid,
        losses=losses,
    )


def _amounts(
    ask: Ask, share: DeviceShare, mode: str | int, aim: DriverTarget
) -> tuple[dict[str, RequestedAmount], tuple[Finding, ...]]:
    losses = []
    amounts: dict[str, RequestedAmount] = {}
    if share.replica and mode == Sharing.MEMORY:
        raise NotExpressibleError(
            f"{aim.driver} shares by memory, and a replica says no amount of it"
        )
    if isinstance(share.memory, Bytes):
        amounts[MEMORY] = format_bytes(share.memory.value)
    elif share.memory is not None and (mode != Sharing.MEMORY or share.memory.value != WHOLE):
        amounts[MEMORY] = share.memory
    if mode == Sharing.MEMORY and share.memory is None:
        message = f"{aim.driver} shares by memory, and who names no amount takes all of it"
        losses.append(make_finding(codes.SHARE_WHOLE, ask, message))
    said = isinstance(mode, int) and _as_shares(share, mode, amounts)
    if share.cores is not None and not said:
        message = f"{share.cores.value} percent of cores on {aim.driver}"
        losses.append(make_finding(codes.CORES_LOST, ask, message))
    if share.isolation in (Isolation.MEMORY, Isolation.MPS):
        message = f"{aim.driver} counts what is shared and does not enforce it"
        losses.append(make_finding(codes.ISOLATION_LOST, ask, message))
    return amounts, tuple(losses)


def _as_shares(share: DeviceShare, most: int, amounts: dict[str, RequestedAmount]) -> bool:
    """Say a part of the cores, or of the memory, in shares where that is exact."""
    wanted = share.cores or (share.memory if isinstance(share.memory, Percent) else None)
    if wanted is None:
        return False
    count = wanted.value * most / 100
    if count != int(count) or count < 1:
        return False
    amounts[SHARES] = str(int(count))
    return True


def _large_enough(ask: Ask, share: DeviceShare, aim: DriverTarget) -> DevicePlan:
    """Ask for the smallest partition that holds the memory, whatever its name."""
    if not isinstance(share.memory, Bytes):
        raise NotExpressibleError("a partition is chosen by an amount of memory, and there is none")
    least = share.memory.value
    known = filter_products(aim.products(types=("mig",)), ask.selectors, MEMORY)
    holding = sorted(
        {
            (capacity_value(each, MEMORY), each.profile)
            for each in known
            if capacity_value(each, MEMORY) >= least
        }
    )
    if known and not holding:
        raise NotExpressibleError(f"no published partition has {format_bytes(least)} of memory")
    enough = write_cel(Memory(at_least=least), aim.words)
    sizes = sorted({size for size, _ in holding})
    ways = tuple(
        (write_cel(Memory(at_least=size, below=size + 1), aim.words),) for size in sizes[:8]
    )
    return DevicePlan(
        class_=aim.offers(MIG),
        selectors=() if ways else (enough,),
        wanted=ask.selectors,
        ways=ways,
    )
