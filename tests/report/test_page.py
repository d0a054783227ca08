"""What the page of a cluster says, from objects; and that names of tenants are only text on it."""

from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.classes import class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.slices import Slice, read_slice, slice_reader
from drawbridge.report.markup import text
from drawbridge.report.page.compose import compose
from drawbridge.report.page.model import (
    ClusterOnPage,
    DeviceOnPage,
    DeviceState,
    Extent,
    HolderOnPage,
    NodeGroupOnPage,
    NodeOnPage,
    PageObjects,
    PageState,
    PluginOnPage,
    Watched,
)
from drawbridge.report.page.stuck import MAX_STUCK
from drawbridge.report.page.waiting import asks_for_devices
from drawbridge.report.page.written import WrittenPage, describe_problems, write_page
from drawbridge.report.stuck.found import Stuck
from tests.tables import YamlValue, every_row, load_cases

T = TypeVar("T")
CASES = load_cases(Path(__file__).parent / "page.yaml")
STATE = PageState("files", "2026-01-01 00:00:00 UTC")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</bdi></details><style>*{display:none}</style>",
    "a\u202egnp.exe\u2066\u0000\x1b[31m",
    "' onmouseover='alert(1)",
    "x" * 100_000,
    "<!--",
    "<main>\n",
)


def read_all(reader: Reader[T], values: Iterable[YamlValue]) -> tuple[T, ...]:
    read = [reader.read(each) for each in values]
    assert not [each for each in read if isinstance(each, tuple)]
    return tuple(each for each in read if not isinstance(each, tuple))


def read_objects(case: YamlValue) -> PageObjects:
    return PageObjects(
        nodes=read_all(node_reader(), case.get("nodes", ())),
        registered=tuple(case.get("nodes", ())),
        slices=read_all(slice_reader(), case.get("slices", ())),
        classes=read_all(class_reader(), case.get("classes", ())),
        claims=tuple(case.get("claims", ())),
        pods=tuple(case.get("pods", ())),
        modes=case.get("modes", {}),
        claims_known=Extent(case.get("claims_known", "cluster")),
        pods_known=Extent(case.get("pods_known", "cluster")),
        slices_known=Extent(case.get("slices_known", "cluster")),
    )


def describe(cluster: ClusterOnPage) -> Iterator[str]:
    for plugin in cluster.plugins:
        yield f"all {_describe_plugin(plugin)}"
    for group in cluster.groups:
        yield f"group {group.name}"
        for node in group.nodes:
            yield from _describe_node(node)
    yield from (f"waits {each.pod}: {' | '.join(each.reasons)}" for each in cluster.waiting)
    for namespace in cluster.namespaces:
        pods = (
            namespace.translated,
            namespace.own_claims,
            namespace.by_class,
            namespace.on_plugins,
        )
        counts = "/".join(map(str, pods))
        yield f"{namespace.namespace} {namespace.mode} {counts} {namespace.waiting}"


def _describe_node(node: NodeOnPage) -> Iterator[str]:
    yield f"node {node.name}" + (f": {', '.join(node.notes)}" if node.notes else "")
    for numa in node.numa_nodes:
        for root in numa.roots:
            for device in root.devices:
                yield f"{numa.name}/{root.name}/{_describe_device(device)}"
    yield from (f"plugin {_describe_plugin(each)}" for each in node.plugins)
    for other in node.others:
        yield f"other {other.claim or '-'} {','.join(other.pods)} {other.amounts}"


def _describe_plugin(plugin: PluginOnPage) -> str:
    held = "?" if plugin.held is None else plugin.held
    return f"{plugin.name} {held}/{plugin.offered}"


def _describe_device(device: DeviceOnPage) -> str:
    holders = "; ".join(map(_describe_holder, device.holders))
    return f"{device.name} {device.state.value} {holders}".rstrip()


def _describe_holder(holder: HolderOnPage) -> str:
    amounts = f" ({holder.amounts})" if holder.amounts else ""
    return f"{holder.claim} for {','.join(holder.pods) or 'nobody'}{amounts}"


@every_row("case", CASES, ids=lambda case: case["name"])
def test_page_cases(case: YamlValue) -> None:
    assert [*describe(compose(read_objects(case)))] == case["page"]


# --- hostile names -------------------------------------------------------------------------------


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[tuple[str, str]] = set()
        self.links: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.seen |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.links |= {f"{value}" for name, value in attrs if name in ("href", "src")}


def write(name: str) -> str:
    """Write the page of a cluster in which everything that others write is this name."""
    watched = (Watched(name, Extent.NAMESPACE, name, failing=name, failing_seconds=7),)
    state = PageState(name, name, is_live=True, watched=watched)
    return write_page(compose(name_all(name)), state).write()


def name_all(name: str) -> PageObjects:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": name,
        "labels": {name: name, "pool": name},
        "annotations": {name: name, "hami.io/vgpu-devices-allocated": f"{name},NVIDIA,1,1:;"},
        "creationTimestamp": name,
    }
    result = {"driver": name, "pool": name, "device": name, "consumedCapacity": {name: name}}
    claim: YamlValue = {
        "metadata": metadata,
        "status": {
            "allocation": {"devices": {"results": [result]}, "allocationTimestamp": name},
            "reservedFor": [{"resource": "pods", "name": name}],
        },
    }
    waiting = {"reason": name, "message": name}
    pod: YamlValue = {
        "metadata": metadata,
        "spec": {
            "containers": [
                {"name": name, "resources": {"limits": {f"{name}/gpu": name, "a.b/c": 1}}}
            ],
            "resourceClaims": [{"name": name, "resourceClaimName": name}],
            "schedulingGates": [{"name": name}],
        },
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": name}],
            "containerStatuses": [{"name": name, "state": {"waiting": waiting}}],
        },
    }
    running: YamlValue = {
        **pod,
        "spec": {**pod["spec"], "nodeName": name},
        "status": {"phase": "Running"},
    }
    return PageObjects(
        slices=(slice_named(name),), claims=(claim,), pods=(pod, running), modes={name: name}
    )


def slice_named(name: str) -> Slice:
    places = ("productName", "resource.kubernetes.io/pcieRoot", "numaNode")
    device = {
        "name": name,
        "attributes": {key: {"string": name} for key in places},
        "taints": [{"key": name, "effect": "NoSchedule"}],
        "capacity": {name: {"value": "1"}},
    }
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": name, "nodeName": name, "pool": pool, "devices": [device]}
    read = read_slice({"metadata": {"name": name}, "spec": spec})
    assert isinstance(read, Slice)
    return read


PLAIN = Elements(write("plain"))


@every_row("name", HOSTILE, ids=range(len(HOSTILE)))
def test_what_others_write_is_text_without_elements_links_and_hidden_characters(name: str) -> None:
    html = write(name)
    elements = Elements(html)
    assert elements.seen == PLAIN.seen
    # The links to the parts of the page are hashes of names.
    assert {each for each in elements.links if not each.startswith("#n")} == {
        each for each in PLAIN.links if not each.startswith("#n")
    }
    assert not any(each in html for each in "\u202e\u2066\x00\x1b")
    assert len(html) < len(write("plain")) + 50_000


@given(st.text())
def test_any_text_stays_inside_its_element(value: str) -> None:
    assert Elements(f"<p>{text(value)}</p>").seen == {("p", "")}


# --- parts ---------------------------------------------------------------------------------------


def written(case: int) -> WrittenPage:
    return write_page(compose(read_objects(CASES[case])), STATE)


def test_another_holder_changes_the_part_of_its_node_and_not_the_frame() -> None:
    before, after = written(1), written(2)
    changed = {key for key, html in after.parts.items() if before.parts[key] != html}
    assert after.frame == before.frame
    assert sum(key.startswith("n") for key in changed) == 2  # the node, and the sum of its group
    assert changed - {"summary"} == {key for key in changed if key.startswith("n")}


def test_another_node_changes_the_frame() -> None:
    assert written(0).frame != written(7).frame


def test_each_part_is_one_element_with_its_key() -> None:
    for key, html in written(0).parts.items():
        assert html.count(f'id="{key}"') == 1


@every_row(
    ("watched", "said"),
    [
        (Watched("Pods", Extent.CLUSTER), ()),
        (Watched("Pods", Extent.NOTHING), ("You may not read Pods",)),
        (Watched("Pods", Extent.NAMESPACE, "a"), ("Pods of namespace a only",)),
        (
            Watched("Pods", Extent.CLUSTER, failing="refused", failing_seconds=47),
            ("watch of Pods has failed for 40 seconds: refused",),
        ),
        (
            Watched("Pods", Extent.CLUSTER, failing="refused", failing_seconds=7_300),
            ("failed for 2 hours: refused",),
        ),
        (
            Watched("Pods", Extent.CLUSTER, is_read=False, failing="refused"),
            ("list of Pods has not been read yet: refused",),
        ),
        (Watched("Pods", Extent.CLUSTER, is_read=False), ("has not been read yet.",)),
    ],
)
def test_what_is_missing_or_not_current_is_said(watched: Watched, said: tuple[str, ...]) -> None:
    lines = describe_problems(PageState("files", "now", is_live=True, watched=(watched,)))
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))
    html = write_page(ClusterOnPage(), PageState("files", "now", watched=(watched,))).write()
    assert all(line in html for line in lines)


def test_a_group_says_the_largest_free_block_of_one_node() -> None:
    free = {DeviceState.FREE: 3, DeviceState.HELD: 5}
    plugin = PluginOnPage("nvidia.com/gpu", 8, 2)
    nodes = (
        NodeOnPage("a", states=free),
        NodeOnPage("b", states={DeviceState.FREE: 1}, plugins=(plugin,)),
        NodeOnPage("c", plugins=(PluginOnPage("nvidia.com/gpu", 8, None),)),
    )
    html = write_page(ClusterOnPage(groups=(NodeGroupOnPage("pool", nodes),)), STATE).write()
    assert "largest free block on one node: 3 devices, 6 nvidia.com/gpu" in html
    full = NodeGroupOnPage("pool", (NodeOnPage("a", states={DeviceState.HELD: 8}),))
    assert "largest free block" not in write_page(ClusterOnPage(groups=(full,)), STATE).write()


def test_what_is_stuck_has_a_row_with_its_holder() -> None:
    stuck = Stuck("ConsumerGone", "ResourceClaim/a/<c>", "pod p is gone", "a controller", "Look.")
    html = write_page(ClusterOnPage(stuck=(stuck,) * (MAX_STUCK + 1)), STATE).write()
    assert "ResourceClaim/a/&lt;c&gt;" in html
    assert "pod p is gone; held by a controller" in html
    assert "1 more object not shown." in html
    assert "Nothing is stuck." in write_page(ClusterOnPage(), STATE).write()


@every_row(
    "name, asks",
    [
        ("nvidia.com/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", True),
        ("cpu", False),
        ("kubernetes.io/batch-cpu", False),
    ],
)
def test_a_pod_asks_for_devices_of_a_plugin_or_of_a_class(name: str, *, asks: bool) -> None:
    container: YamlValue = {"resources": {"limits": {name: "1"}}}
    assert asks_for_devices({"spec": {"containers": [container]}}) is asks
