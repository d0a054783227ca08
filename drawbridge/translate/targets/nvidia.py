"""gpu.nvidia.com: whole GPUs, MIG partitions, passthrough devices, and shared GPUs.

The driver counts shared capacity but does not enforce it. Each published product shows its sharing
mode; if no product is known, the configuration determines the mode.
"""

from decimal import Decimal

from drawbridge.facts.model import Product, of_several
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Percent
from drawbridge.translate.legacy.selectors import Memory, RawCEL
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import (
    DevicePlan,
    DriverTarget,
    RequestedAmount,
    Sharing,
    make_finding,
)
from drawbridge.translate.targets.products import capacity_value, filter_products
from drawbridge.translate.targets.requests import MAX_ALTERNATIVES
from drawbridge.translate.targets.vocabulary import (
    NO_REPLICA,
    OTHER_AMOUNT,
    DriverVocabulary,
    Expression,
    NotExpressibleError,
    express,
    format_bytes,
    make_vocabulary,
)

MIG = "mig.nvidia.com"
VFIO = "vfio.gpu.nvidia.com"
MEMORY, SHARES = "memory", "shares"
WHOLE = 100
# Whole GPUs and partitions publish all of these; a passthrough device only the product.
_USUAL = ("product", "architecture", "compute", "driver_version", "cuda_version", "memory")


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain."""
    names = {
        "product": "productName",
        "architecture": "architecture",
        "compute": "cudaComputeCapability",
        "driver_version": "driverVersion",
        "cuda_version": "cudaDriverVersion",
        "memory": MEMORY,
        # Whole GPUs and static partitions publish the uuid; partitions publish the others.
        "uuid": "uuid",
        "profile": "profile",
        "parent": "parentUUID",
    }
    return make_vocabulary(domain, names, usual=_USUAL)


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.passthrough:
        return _passthrough(ask, target)
    if ask.share and ask.share.isolation is Isolation.MIG and ask.share.memory is not None:
        return _smallest_partition(ask, ask.share, target)
    if ask.partition:
        return _partition(ask, target)
    if ask.share is None:
        return _whole(ask, target)
    return _shared(ask, ask.share, target)


def _partition(ask: Ask, target: DriverTarget) -> DevicePlan:
    losses: tuple[Finding, ...] = ()
    if ask.share is not None:
        message = f"a share of a partition takes the whole partition on {target.driver}"
        losses = (make_finding(codes.SHARE_TAKES_WHOLE, ask, message),)
    return DevicePlan(
        class_=target.require_class(MIG),
        ask_selectors=ask.selectors,
        parent=target.vocabulary.parent,
        losses=losses,
    )


def _passthrough(ask: Ask, target: DriverTarget) -> DevicePlan:
    # Of the attributes that selectors read, a passthrough device publishes only these.
    published = DriverVocabulary(product=target.vocabulary.product, uuid=target.vocabulary.uuid)
    return DevicePlan(
        class_=target.require_class(VFIO), ask_selectors=ask.selectors, vocabulary=published
    )


def sharing_modes(products: tuple[Product, ...], target: DriverTarget) -> set[str | int]:
    """Return the sharing modes of the products; without products, the configured mode.

    No single node decides in which mode the others share their devices.
    """
    return {_mode(each) for each in of_several(products)} or {target.sharing}


def _mode(product: Product) -> str | int:
    if not product.shared:
        return Sharing.NONE
    if SHARES in product.capacity:
        return capacity_value(product, SHARES)
    memory = product.capacity.get(MEMORY)
    return Sharing.UNLIMITED if memory and memory.default == "0" else Sharing.MEMORY


def _allocatable_products(target: DriverTarget) -> tuple[Product, ...]:
    """Return the products of whole GPUs; without shared ones if the cluster drops capacities."""
    keeps_capacity = target.facts is None or target.facts.keeps_field("exactly.capacity")
    return tuple(
        product
        for product in target.products(types=("gpu",))
        if keeps_capacity or not product.shared
    )


def _whole(ask: Ask, target: DriverTarget) -> DevicePlan:
    products = _allocatable_products(target)
    modes = sharing_modes(filter_products(products, ask.selectors, MEMORY), target)
    selectors: tuple[Expression, ...] = ()
    amounts: dict[str, RequestedAmount] = {}
    losses: tuple[Finding, ...] = ()
    # A claim on a GPU shared by memory takes all memory by default, so the GPU is exclusive.
    counted = modes - {Sharing.NONE, Sharing.MEMORY}
    if counted and Sharing.NONE in modes:
        selectors = (_express_sharing(target, shared=False),)
        modes = {Sharing.NONE}
    elif len(modes) == 1 and isinstance(only := next(iter(modes)), int):
        amounts = {SHARES: str(only)}
        if products:
            amounts[MEMORY] = Percent(Decimal(100))
    elif counted:
        message = f"{target.driver} shares every device without a limit"
        losses = (make_finding(codes.EXCLUSIVITY_LOST, ask, message),)
    if counted:
        target.require_field("exactly.capacity")
    return DevicePlan(
        class_=target.require_class(target.class_),
        selectors=selectors,
        ask_selectors=ask.selectors,
        amounts=amounts,
        percent_of=products,
        distinct="" if modes == {Sharing.NONE} else target.vocabulary.uuid,
        losses=losses,
    )


def _shared(ask: Ask, share: DeviceShare, target: DriverTarget) -> DevicePlan:
    products = filter_products(target.products(types=("gpu",)), ask.selectors, MEMORY)
    sharing = tuple(each for each in products if each.shared)
    modes = sharing_modes(sharing, target) if sharing or not products else {Sharing.NONE}
    if modes == {Sharing.NONE}:
        raise NotExpressibleError(f"{target.driver} does not share its devices")
    if len(modes) > 1:
        raise NotExpressibleError(f"{target.driver} uses more than one sharing mode")
    target.require_field("exactly.capacity")
    mode = next(iter(modes))
    amounts, losses = _amounts(ask, share, mode, target)
    mixed = any(not each.shared for each in of_several(products))
    return DevicePlan(
        class_=target.require_class(target.class_),
        selectors=(_express_sharing(target, shared=True),) if mixed else (),
        ask_selectors=ask.selectors,
        amounts=amounts,
        percent_of=sharing,
        distinct=target.vocabulary.uuid,
        single=bool(sharing) and all(each.single for each in sharing),
        losses=losses,
    )


def _express_sharing(target: DriverTarget, *, shared: bool) -> Expression:
    text = f"device.allowMultipleAllocations == {'true' if shared else 'false'}"
    return Expression(text, RawCEL(text), target.vocabulary)


def _amounts(
    ask: Ask, share: DeviceShare, mode: str | int, target: DriverTarget
) -> tuple[dict[str, RequestedAmount], tuple[Finding, ...]]:
    losses = []
    amounts: dict[str, RequestedAmount] = {}
    if share.replica and mode == Sharing.MEMORY:
        raise NotExpressibleError(
            f"{target.driver} shares devices by memory, but a replica specifies no amount",
            f"{NO_REPLICA} {target.driver} does not enforce it, so add isolation to "
            "`decisions.allowLossOf`.",
        )
    if isinstance(share.memory, Bytes):
        amounts[MEMORY] = format_bytes(share.memory.value)
    elif share.memory is not None and (mode != Sharing.MEMORY or share.memory.value != WHOLE):
        amounts[MEMORY] = share.memory
    if mode == Sharing.MEMORY and share.memory is None:
        message = (
            f"{target.driver} shares devices by memory, and a request without an amount takes all"
        )
        losses.append(make_finding(codes.SHARE_TAKES_WHOLE, ask, message))
    expressed = isinstance(mode, int) and _add_shares(share, mode, amounts)
    if share.cores is not None and not expressed:
        message = (
            f"{share.cores.value} percent of cores requested, but {target.driver} does not limit "
            "cores"
        )
        losses.append(make_finding(codes.CORES_NOT_LIMITED, ask, message))
    if share.isolation in (Isolation.MEMORY, Isolation.MPS):
        message = f"{target.driver} does not enforce the limits of pods that share a device"
        losses.append(make_finding(codes.ISOLATION_LOST, ask, message))
    return amounts, tuple(losses)


def _add_shares(share: DeviceShare, most: int, amounts: dict[str, RequestedAmount]) -> bool:
    """Request a percentage as a number of shares if that is exact; False otherwise."""
    percent = share.cores or (share.memory if isinstance(share.memory, Percent) else None)
    if percent is None:
        return False
    count = percent.value * most / 100
    if count != int(count) or count < 1:
        return False
    amounts[SHARES] = str(int(count))
    return True


def _smallest_partition(ask: Ask, share: DeviceShare, target: DriverTarget) -> DevicePlan:
    """Request the smallest partitions with enough memory, whatever their profiles."""
    if not isinstance(share.memory, Bytes):
        raise NotExpressibleError(
            "a partition is selected by its memory, but the pod requests no amount", OTHER_AMOUNT
        )
    least = share.memory.value
    losses: tuple[Finding, ...] = ()
    if share.cores is not None:
        message = (
            f"{share.cores.value} percent of cores requested, but the memory selects the partition"
        )
        losses = (make_finding(codes.CORES_NOT_LIMITED, ask, message),)
    products = filter_products(target.products(types=("mig",)), ask.selectors, MEMORY)
    enough_memory = [
        product
        for product in products
        if MEMORY in product.capacity and capacity_value(product, MEMORY) >= least
    ]
    holding = enough_memory if target.has_room(ask) else of_several(enough_memory)
    are_of_several = not target.single and any(not each.single for each in products)
    if are_of_several and not holding:
        raise NotExpressibleError(
            f"no published partition has {format_bytes(least)} of memory",
            "Request less memory, or a whole device.",
        )
    enough = express(Memory(at_least=least), target.vocabulary)
    # Those of several nodes first: one node with odd sizes takes no place from them.
    ordered = sorted((each.single, capacity_value(each, MEMORY)) for each in holding)
    sizes = sorted(list(dict.fromkeys(size for _, size in ordered))[:MAX_ALTERNATIVES])
    alternatives = tuple(
        (express(Memory(at_least=size, below=size + 1), target.vocabulary),) for size in sizes
    )
    return DevicePlan(
        class_=target.require_class(MIG),
        selectors=() if alternatives else (enough,),
        ask_selectors=ask.selectors,
        alternatives=alternatives,
        losses=losses,
    )
