"""gpu.nvidia.com: whole GPUs, MIG partitions, passthrough, and GPUs shared by the driver.

The driver counts what is shared and enforces nothing. How it shares is published with each
product; the configuration says it where no product is known.
"""

from decimal import Decimal

import msgspec

from dra.finding import Finding
from facts.model import Product
from translate.legacy.asks import Ask, Bytes, Isolation, Percent, Share
from translate.legacy.selectors import Memory
from translate.targets import codes
from translate.targets.plan import Aim, Amount, Plan, Sharing, tell
from translate.targets.products import accepted, total
from translate.targets.vocabulary import UnsayableError, Words, amount, cel, named

DRIVER = "gpu.nvidia.com"
MIG = "mig.nvidia.com"
VFIO = "vfio.gpu.nvidia.com"
MEMORY, SHARES = "memory", "shares"
WHOLE = 100
# What whole GPUs and partitions publish alike; a passthrough device has the product alone.
_ALWAYS = ("product", "architecture", "compute", "driver_version", "cuda_version", "memory")


def words(domain: str) -> Words:
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
    return named(full, always=frozenset(full[word] for word in _ALWAYS))


def plan(ask: Ask, aim: Aim) -> Plan:
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


def _partition(ask: Ask, aim: Aim) -> Plan:
    losses: tuple[Finding, ...] = ()
    if ask.share is not None:
        message = f"a share of a partition takes the whole partition on {aim.driver}"
        losses = (tell(codes.SHARE_WHOLE, ask, message),)
    return Plan(
        class_=aim.offers(MIG),
        wanted=ask.selectors,
        words=_surely(aim.words, "profile"),
        parent=aim.words.parent,
        losses=losses,
    )


def _surely(words: Words, name: str) -> Words:
    """The words for devices that surely publish one more attribute."""
    surely: str = getattr(words, name)
    return msgspec.structs.replace(words, always=words.always | {surely})


def _passthrough(ask: Ask, aim: Aim) -> Plan:
    # Of what selectors ask, it publishes uuid and product alone.
    bare = Words(product=aim.words.product, uuid=aim.words.uuid)
    return Plan(class_=aim.offers(VFIO), wanted=ask.selectors, words=bare)


def modes(products: tuple[Product, ...], aim: Aim) -> set[str | int]:
    """How the products are shared; the configuration's word where none is known."""
    return {_mode(each) for each in products} or {aim.sharing}


def _mode(product: Product) -> str | int:
    if not product.shared:
        return Sharing.NONE
    if SHARES in product.capacity:
        return total(product, SHARES)
    memory = product.capacity.get(MEMORY)
    return Sharing.UNLIMITED if memory and memory.default == "0" else Sharing.MEMORY


def _handed_out(aim: Aim) -> tuple[Product, ...]:
    """The products of whole GPUs; without shared ones where the cluster hands out no shares."""
    shares = aim.facts is None or aim.facts.keeps("exactly.capacity")
    return tuple(each for each in aim.products(types=("gpu",)) if shares or not each.shared)


def _whole(ask: Ask, aim: Aim) -> Plan:
    products = _handed_out(aim)
    found = modes(accepted(products, ask.selectors, MEMORY), aim)
    selectors: tuple[str, ...] = ()
    amounts: dict[str, Amount] = {}
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
        losses = (tell(codes.EXCLUSIVITY_LOST, ask, message),)
    if counted:
        aim.keeps("exactly.capacity")
    return Plan(
        class_=aim.offers(aim.class_),
        selectors=selectors,
        wanted=ask.selectors,
        words=_surely(aim.words, "uuid"),
        amounts=amounts,
        percent_of=products,
        distinct="" if found == {Sharing.NONE} else aim.words.uuid,
        losses=losses,
    )


def _shared(ask: Ask, share: Share, aim: Aim) -> Plan:
    known = accepted(aim.products(types=("gpu",)), ask.selectors, MEMORY)
    sharing = tuple(each for each in known if each.shared)
    found = modes(sharing, aim) if sharing or not known else {Sharing.NONE}
    if found == {Sharing.NONE}:
        raise UnsayableError(f"{aim.driver} does not share its devices")
    if len(found) > 1:
        raise UnsayableError(f"{aim.driver} shares its devices in more than one way")
    aim.keeps("exactly.capacity")
    mode = next(iter(found))
    amounts, losses = _amounts(ask, share, mode, aim)
    mixed = len(sharing) < len(known)
    return Plan(
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
    ask: Ask, share: Share, mode: str | int, aim: Aim
) -> tuple[dict[str, Amount], tuple[Finding, ...]]:
    losses = []
    amounts: dict[str, Amount] = {}
    if share.replica and mode == Sharing.MEMORY:
        raise UnsayableError(f"{aim.driver} shares by memory, and a replica says no amount of it")
    if isinstance(share.memory, Bytes):
        amounts[MEMORY] = amount(share.memory.value)
    elif share.memory is not None and (mode != Sharing.MEMORY or share.memory.value != WHOLE):
        amounts[MEMORY] = share.memory
    if mode == Sharing.MEMORY and share.memory is None:
        message = f"{aim.driver} shares by memory, and who names no amount takes all of it"
        losses.append(tell(codes.SHARE_WHOLE, ask, message))
    said = isinstance(mode, int) and _as_shares(share, mode, amounts)
    if share.cores is not None and not said:
        message = f"{share.cores.value} percent of cores on {aim.driver}"
        losses.append(tell(codes.CORES_LOST, ask, message))
    if share.isolation in (Isolation.MEMORY, Isolation.MPS):
        message = f"{aim.driver} counts what is shared and does not enforce it"
        losses.append(tell(codes.ISOLATION_LOST, ask, message))
    return amounts, tuple(losses)


def _as_shares(share: Share, most: int, amounts: dict[str, Amount]) -> bool:
    """Say a part of the cores, or of the memory, in shares where that is exact."""
    wanted = share.cores or (share.memory if isinstance(share.memory, Percent) else None)
    if wanted is None:
        return False
    count = wanted.value * most / 100
    if count != int(count) or count < 1:
        return False
    amounts[SHARES] = str(int(count))
    return True


def _large_enough(ask: Ask, share: Share, aim: Aim) -> Plan:
    """Ask for the smallest partition that holds the memory, whatever its name."""
    if not isinstance(share.memory, Bytes):
        raise UnsayableError("a partition is chosen by an amount of memory, and there is none")
    least = share.memory.value
    known = accepted(aim.products(types=("mig",)), ask.selectors, MEMORY)
    holding = sorted(
        {(total(each, MEMORY), each.profile) for each in known if total(each, MEMORY) >= least}
    )
    if known and not holding:
        raise UnsayableError(f"no published partition has {amount(least)} of memory")
    enough = cel(Memory(at_least=least), aim.words)
    sizes = sorted({size for size, _ in holding})
    ways = tuple((cel(Memory(at_least=size, below=size + 1), aim.words),) for size in sizes[:8])
    return Plan(
        class_=aim.offers(MIG),
        selectors=() if ways else (enough,),
        wanted=ask.selectors,
        ways=ways,
    )
