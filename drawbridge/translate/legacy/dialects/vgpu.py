"""Virtual GPUs as HAMi and Volcano request them: a count, and the part of each GPU.

Each dialect has its own names for count, memory, percentage of memory and percentage of cores.
Annotations select GPUs by type and UUID.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, cast

from drawbridge.config.model import Legacy
from drawbridge.dra.decode_errors import describe_choice
from drawbridge.dra.quantity import Quantity, parse
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Percent
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    AMOUNT_SUSPICIOUS,
    HINT_EMPTY,
    HINT_LOST,
    MEANING_CHANGES,
    WORD_UNKNOWN,
)
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import (
    Container,
    DeviceResource,
    PodView,
    annotation_path,
)
from drawbridge.translate.legacy.selectors import AskSelector, Not, ProductContains, Uuid

MI: Final = 1 << 20
MEMORY_UNIT: Final = parse("1Mi")
_MORE_THAN_ANY_GPU: Final = 2**44
_ALL_MEMORY: Final = Percent(Decimal(100))
_ALL_CORES: Final = _ALL_MEMORY
_MODES: Final = {
    "": Isolation.MEMORY,
    "hami-core": Isolation.MEMORY,
    "mig": Isolation.MIG,
    "mps": Isolation.MPS,
}
_NAMES: Final = {isolation: name for name, isolation in _MODES.items() if name}


@dataclass(frozen=True, slots=True)
class VgpuNames:
    """The names of resources and annotations of one dialect."""

    count: str
    memory: str
    percent: str
    cores: str
    mode: str
    use_uuid: str
    nouse_uuid: str
    use_type: str = "nvidia.com/use-gputype"
    nouse_type: str = "nvidia.com/nouse-gputype"
    exclusive_count: bool = False  # a count alone takes all cores, whatever the default memory

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of resources."""
        return (self.count, self.memory, self.percent, self.cores)

    @property
    def annotations(self) -> tuple[str, ...]:
        """The names of annotations."""
        return (self.mode, self.use_uuid, self.nouse_uuid, self.use_type, self.nouse_type)


def configured_amount(configured: Mapping[str, Quantity], name: str, default: int) -> int:
    """Return the amount that the configuration has for a resource, else the default."""
    quantity = configured.get(name)
    return default if quantity is None else quantity.value()


def units(legacy: Legacy) -> Mapping[str, Quantity]:
    """Return the configured size of one unit of each resource."""
    return cast("Mapping[str, Quantity]", legacy.units)


def defaults(legacy: Legacy) -> Mapping[str, Quantity]:
    """Return the configured amounts of resources that a container does not request."""
    return cast("Mapping[str, Quantity]", legacy.defaults)


def read_memory(resource: DeviceResource, legacy: Legacy) -> tuple[Bytes, list[Finding]]:
    """Read memory as a number of units."""
    unit = units(legacy).get(resource.name, MEMORY_UNIT)
    findings = [
        AMOUNT_REFUSED.at(resource.where, f"{resource.original_name} {problem}", remedy=remedy)
        for problem, remedy in check_units(resource.amount, resource.amount_text, unit)
    ]
    return Bytes(resource.amount * unit.value()), findings


def check_units(number: int, text: str, unit: Quantity) -> Iterator[tuple[str, str | None]]:
    """Yield what is wrong with a number of units of memory, and the remedy.

    A number of bytes, as with a suffix, exceeds every GPU.
    """
    unit_size = unit.value()
    if number * unit_size >= _MORE_THAN_ANY_GPU:
        intended = number // unit_size if number < _MORE_THAN_ANY_GPU else 0
        meaning = f"counts units of {unit}, not bytes" if unit_size > 1 else "counts bytes"
        problem = f"{meaning}; {text} units are more memory than any GPU has"
        yield problem, f'Write "{intended}".' if intended else None


def check_percentage(resource: DeviceResource) -> list[Finding]:
    """Check that an amount is a percentage."""
    if resource.amount <= 100:
        return []
    return [
        AMOUNT_REFUSED.at(
            resource.where,
            f"{resource.original_name} must be from 0 to 100, not {resource.amount_text}",
        )
    ]


def read_share(
    names: VgpuNames, container: Container, legacy: Legacy, isolation: Isolation
) -> tuple[DeviceShare | None, str, list[Finding]]:
    """Read the part of each GPU that a container requests. None is an exclusive whole GPU.

    Also returns the row of the decision table.
    """
    resources = container.resources
    default = defaults(legacy)
    findings: list[Finding] = []
    memory: Bytes | Percent = _ALL_MEMORY
    if names.percent in resources:
        findings += check_percentage(resources[names.percent])
        memory = Percent(Decimal(resources[names.percent].amount))
    if names.memory in resources:
        memory, problems = read_memory(resources[names.memory], legacy)
        findings += problems
        if percent := resources.get(names.percent):
            why = f"{resources[names.memory].original_name} takes precedence"
            findings.append(
                HINT_EMPTY.at(percent.where, f"{percent.original_name} has no effect: {why}")
            )
    elif names.percent not in resources and configured_amount(default, names.memory, 0):
        unit_size = configured_amount(units(legacy), names.memory, MI)
        memory = Bytes(configured_amount(default, names.memory, 0) * unit_size)
    cores, problems = _read_cores(names, resources, default)
    findings += problems
    if isolation is Isolation.MIG:
        return DeviceShare(memory, cores, isolation), "mig", findings
    if cores is None and names.exclusive_count and _is_count_alone(names, container, default):
        cores = _ALL_CORES
    if memory == _ALL_MEMORY:
        if cores is None or cores.value == 100:
            return None, "whole", findings
        return DeviceShare(memory, cores, isolation), "cores", findings
    row = "memory" if isinstance(memory, Bytes) else "percent"
    return DeviceShare(memory, cores, isolation), row, findings


def _is_count_alone(
    names: VgpuNames, container: Container, default: Mapping[str, Quantity]
) -> bool:
    """Whether a container mentions neither memory nor cores, and cores have no default."""
    mentioned = {*container.resources, *container.zeros, *default.keys() & {names.cores}}
    return mentioned.isdisjoint((names.memory, names.percent, names.cores))


def _read_cores(
    names: VgpuNames, resources: Mapping[str, DeviceResource], default: Mapping[str, Quantity]
) -> tuple[Percent | None, list[Finding]]:
    resource = resources.get(names.cores)
    cores = resource.amount if resource else configured_amount(default, names.cores, 0)
    findings = []
    if resource and cores > 100:
        findings.append(
            AMOUNT_SUSPICIOUS.at(
                resource.where,
                f"{resource.original_name} is {resource.amount_text} percent of the cores; it is "
                "limited to 100 percent",
            )
        )
    return (Percent(Decimal(min(cores, 100))) if cores else None), findings


def read_isolation(names: VgpuNames, pod: PodView) -> tuple[Isolation, list[Finding]]:
    """Read the sharing mode in the pod's annotation. Of several modes, memory isolation wins."""
    mode = pod.annotations.get(names.mode, "")
    modes = [each.strip() for each in mode.split(",")]
    isolations = {_MODES[each] for each in modes if each in _MODES}
    if len(isolations) < len(set(modes)):
        return Isolation.MEMORY, [unknown_value(names.mode, mode, tuple(_MODES)[1:])]
    chosen = next(each for each in _MODES.values() if each in isolations)
    where = annotation_path(names.mode)
    findings = []
    if len(isolations) > 1:
        why = f"the pod accepts the modes {mode}, but the claim requests {_NAMES[chosen]} only"
        findings.append(HINT_LOST.at(where, why))
    if chosen is Isolation.MPS:
        why = "the DRA driver decides how pods that share a GPU are isolated, not the mode mps"
        findings.append(MEANING_CHANGES.at(where, why))
    return chosen, findings


def unknown_value(key: str, value: str, allowed: tuple[str, ...]) -> Finding:
    """Return the finding that an annotation has a value that is not allowed."""
    return WORD_UNKNOWN.at(annotation_path(key), f"the value {describe_choice(value, allowed)}")


def read_selectors(names: VgpuNames, pod: PodView) -> tuple[tuple[AskSelector, ...], list[Finding]]:
    """Read which GPUs the pod's annotations select or exclude by type and UUID."""
    selectors: list[AskSelector] = []
    findings = []
    for key, make, included in (
        (names.use_type, _product_contains, True),
        (names.nouse_type, _product_contains, False),
        (names.use_uuid, Uuid, True),
        (names.nouse_uuid, Uuid, False),
    ):
        if key not in pod.annotations:
            continue
        entries = tuple(entry.strip() for entry in pod.annotations[key].split(",") if entry.strip())
        if entries:
            selectors.append(make(entries) if included else Not(make(entries)))
        elif key in {names.use_uuid, names.nouse_type}:
            # No GPU is in an empty list of UUIDs, and every name contains the empty string.
            what = f"{key} is empty, so no GPU matches"
            findings.append(WORD_UNKNOWN.at(annotation_path(key), what))
        else:
            what = f"{key} is empty and has no effect"
            findings.append(HINT_EMPTY.at(annotation_path(key), what))
    return tuple(selectors), findings


def drop_without_count(names: VgpuNames, container: Container, builder: RequestBuilder) -> bool:
    """Drop the amounts of a container whose count is 0, and report them. Returns whether it is.

    Both projects take a missing count as 1 if there is an amount, and a count of 0 as no request.
    """
    zero = container.zeros.get(names.count)
    if zero is None:
        return False
    for name in names.resources:
        if amount := container.resources.get(name):
            builder.source_fields += amount.source_fields()
            why = f"{amount.original_name} has no effect, because {zero.original_name} is 0"
            builder.findings.append(HINT_EMPTY.at(amount.where, why))
    return True


def check_uuid_count(names: VgpuNames, ask: Ask, where: str) -> list[Finding]:
    """Check that the annotation lists at least as many UUIDs as GPUs are requested."""
    lists = [selector for selector in ask.selectors if isinstance(selector, Uuid)]
    if not lists or ask.count is None or ask.count <= len(set(lists[0].ids)):
        return []
    listed = len(set(lists[0].ids))
    uuids = "1 UUID" if listed == 1 else f"{listed} UUIDs"
    return [
        AMOUNT_REFUSED.at(
            where,
            f"{ask.count} GPUs requested, but {names.use_uuid} lists {uuids}",
            remedy="List as many UUIDs as GPUs are requested, or request fewer GPUs.",
        )
    ]


def _product_contains(entries: tuple[str, ...]) -> AskSelector:
    # The dialect compares with "<vendor>-<model>". The vendor prefix does not select anything.
    return ProductContains(tuple(entry.lower().removeprefix("nvidia-") for entry in entries))
