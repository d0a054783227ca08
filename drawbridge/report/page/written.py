"""Writes the page of a cluster as HTML, in parts that change on their own.

The frame is what stands around the parts. Whoever has the frame needs only the parts that changed;
another frame means another page. Keys of parts are hashes, because tenants and drivers write names.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from drawbridge.dra.counted import count_noun
from drawbridge.report.markup import bar, document, isolated, key, table, text
from drawbridge.report.page.devices import describe_states
from drawbridge.report.page.model import (
    STATE_WORDS,
    ClusterOnPage,
    DeviceOnPage,
    DeviceState,
    Extent,
    HolderOnPage,
    NamespaceProgress,
    NodeGroupOnPage,
    NodeOnPage,
    PageState,
    PluginOnPage,
    QuotaOnPage,
    QuotasOnPage,
    WaitingPodOnPage,
    Watched,
)
from drawbridge.report.page.script import FIND, SCRIPT, SEARCH
from drawbridge.report.page.stuck import MAX_STUCK
from drawbridge.report.stuck.found import Stuck

TITLE: Final = "Devices of a cluster"
AUDIT: Final = "audit"
_MAIN: Final = "<main>\n"  # in the frame, where the version of the page is written
_NAME: Final = 253
_NOTES: Final = 1_000
_WIDTH: Final = 96  # of a resource in the bar of a node
# In the order of the bar of a namespace: field, colour and words.
_SERVED: Final = (
    ("translated", "translated", "translated"),
    ("own_claims", "ownClaims", "own claims"),
    ("by_class", "byClass", "served by a class"),
    ("on_plugins", "stays", "on device plugins"),
)
_AGES: Final = ((3_600, "hour"), (60, "minute"), (1, "second"))


class WrittenPart(NamedTuple):
    """One element of the page, whose id is the key."""

    key: str
    html: str


class WrittenPage(NamedTuple):
    """The page: the frame as text, and parts."""

    chunks: tuple[str | WrittenPart, ...]

    @property
    def parts(self) -> Mapping[str, str]:
        """The HTML of each part by its key."""
        return {each.key: each.html for each in self.chunks if isinstance(each, WrittenPart)}

    @property
    def frame(self) -> tuple[str, ...]:
        """What stands around the parts, with their keys."""
        return tuple(each.key if isinstance(each, WrittenPart) else each for each in self.chunks)

    def write(self, version: int = 0) -> str:
        """Return all of it, with a version that the page tells its script."""
        main = f'<main data-version="{version}">\n'
        return "".join(
            each.html if isinstance(each, WrittenPart) else main if each == _MAIN else each
            for each in self.chunks
        )


def write_page(cluster: ClusterOnPage, state: PageState) -> WrittenPage:
    """Write the page."""
    before, after = "".join(document(TITLE, ["\0"])).split("\0")
    script = f"<script>{SEARCH}</script>\n"
    script += f"<script>{SCRIPT}</script>\n" if state.is_live else ""
    return WrittenPage(
        (
            before,
            '<a class="skip" href="#waiting-pods">Skip to the pods that wait</a>\n',
            f"<header>\n<h1>{TITLE}</h1>\n{_write_navigation(cluster)}</header>\n",
            '<p id="lost" class="alarm" role="status" hidden></p>\n',
            _MAIN,
            *_write_state(state),
            WrittenPart("summary", _write_summary(cluster)),
            '<h2 id="waiting-pods">Pods that wait</h2>\n',
            WrittenPart("waiting", _write_waiting(cluster)),
            '<h2 id="stuck-objects">What is stuck</h2>\n',
            WrittenPart("stuck", _write_stuck(cluster.stuck)),
            '<h2 id="migration">The migration, by namespace</h2>\n',
            WrittenPart("progress", _write_progress(cluster)),
            *_write_quotas(cluster.quotas),
            '<h2 id="nodes">Nodes and devices</h2>\n',
            FIND,
            _write_legend(cluster),
            *(each for group in cluster.groups for each in _write_group(group)),
            _write_more_nodes(cluster),
            "</main>\n",
            script,
            after,
        )
    )


def hash_name(*names: str) -> str:
    """Return a key of a part for what names it."""
    return f"n{sha256('/'.join(names).encode(errors='replace')).hexdigest()[:16]}"


# --- head ----------------------------------------------------------------------------------------


def _write_navigation(cluster: ClusterOnPage) -> str:
    groups = "".join(
        f'<li><a href="#{hash_name("group", each.name)}">{isolated(each.name, _NAME)}</a></li>'
        for each in cluster.groups
    )
    quotas = '<li><a href="#quotas">Quotas</a></li>\n' if cluster.quotas is not None else ""
    return (
        '<nav class="screen" aria-label="Contents">\n<ul>\n'
        '<li><a href="#waiting-pods">Pods that wait</a></li>\n'
        '<li><a href="#stuck-objects">What is stuck</a></li>\n'
        '<li><a href="#migration">The migration, by namespace</a></li>\n'
        f"{quotas}"
        f'<li><a href="#nodes">Nodes and devices</a><ul>{groups}</ul></li>\n'
        f'<li><a href="{AUDIT}">The audit: what would happen to this cluster</a></li>\n'
        "</ul>\n</nav>\n"
    )


def _write_state(state: PageState) -> Iterator[str | WrittenPart]:
    """Yield since when the page is what it says, and what is missing or not current."""
    said = f"Live from {state.source}; the last change was read at {state.at}."
    if not state.is_live:
        said = f"Read from {state.source} at {state.at}."
    yield WrittenPart("at", f'<p id="at" class="quiet">{text(said, _NOTES)}</p>\n')
    if state.is_live:
        yield (
            '<noscript><p class="alarm">Without scripts this page does not change by itself: '
            '<a href="">load it again</a>.</p></noscript>\n'
        )
    shown = "".join(
        f'<p class="alarm">{text(each, _NOTES)}</p>' for each in describe_problems(state)
    )
    yield WrittenPart("state", f'<div id="state" role="status">{shown}</div>\n')


def describe_problems(state: PageState) -> tuple[str, ...]:
    """Return what is missing on the page, and what is not current."""
    more = f"{count_noun(state.unread, 'object')} cannot be read, and are not shown."
    return (*_describe_watches(state.watched), *((more,) if state.unread else ()))


def _describe_watches(watched: Sequence[Watched]) -> Iterator[str]:
    for watch in watched:
        if watch.extent is Extent.NOTHING:
            yield f"You may not read {watch.kind}: what they would show is not known."
        elif watch.extent is Extent.NAMESPACE:
            yield (
                f"You may read {watch.kind} of namespace {watch.namespace} only: those of other"
                " namespaces are not shown."
            )
        if watch.failing and watch.is_read:
            yield (
                f"Not current: the watch of {watch.kind} has failed for"
                f" {format_seconds(watch.failing_seconds)}: {watch.failing}"
            )
        elif watch.extent is not Extent.NOTHING and not watch.is_read:
            why = f": {watch.failing}" if watch.failing else "."
            yield f"The list of {watch.kind} has not been read yet{why}"


def format_seconds(seconds: float) -> str:
    """Return a duration in steps that grow, so that the text of a page seldom changes."""
    for unit, name in _AGES:
        if seconds >= unit:
            number = int(seconds // unit)
            return count_noun(number if unit > 1 else max(1, number // 10 * 10), name)
    return "less than a second"


def _write_summary(cluster: ClusterOnPage) -> str:
    nodes = sum(len(each.nodes) for each in cluster.groups) + cluster.more_nodes
    waiting = len(cluster.waiting) + cluster.more_waiting
    colours = [(state.value, number) for state, number in cluster.states.items()]
    rows = [(describe_states(cluster.states), colours)] if colours or not cluster.plugins else []
    rows += [
        (f"Of device plugins: {_describe_plugin(each)}", [*_colours_of(each)])
        for each in cluster.plugins
    ]
    shown = "".join(f"<p>{text(said)}.</p>{bar(parts)}" for said, parts in rows)
    said = f"{count_noun(nodes, 'node')}. {count_noun(waiting, 'pod')} waiting."
    return f'<div id="summary"><p>{text(said)}</p>{shown}</div>\n'


def _write_legend(cluster: ClusterOnPage) -> str:
    if not cluster.groups:
        return "<p>No node, and no device.</p>\n"
    keys = "".join(f"<li>{key(each.value)}{STATE_WORDS[each]}</li>" for each in DeviceState)
    return f'<ul class="legend" aria-label="Colours of the bars">{keys}</ul>\n'


# --- pods and namespaces -------------------------------------------------------------------------


def _write_waiting(cluster: ClusterOnPage) -> str:
    if not cluster.waiting:
        inside = "<p>No pod that asks for devices waits.</p>"
    else:
        header = ("Pod", "Since", "Asks", "Why it waits")
        inside = table(
            "Pods that wait, the oldest first", header, map(_waiting_row, cluster.waiting)
        )
        if cluster.more_waiting:
            inside += f"<p>{count_noun(cluster.more_waiting, 'more pod')} not shown.</p>"
    return f'<div id="waiting">{inside}</div>\n'


def _write_stuck(several: Sequence[Stuck]) -> str:
    if not several:
        inside = "<p>Nothing is stuck.</p>"
    else:
        header = ("Object", "Since when, and who holds it", "What to do")
        rows = (tuple(map(text, (e.object, e.text, e.remedy))) for e in several[:MAX_STUCK])
        inside = table("Objects that do not go on", header, rows)
        if len(several) > MAX_STUCK:
            inside += f"<p>{count_noun(len(several) - MAX_STUCK, 'more object')} not shown.</p>"
    return f'<div id="stuck">{inside}</div>\n'


def _waiting_row(pod: WaitingPodOnPage) -> tuple[str, ...]:
    return (
        text(pod.pod, 2 * _NAME),
        text(pod.since, _NAME),
        "<br>".join(map(text, pod.asks)),
        "<br>".join(map(text, pod.reasons)),
    )


def _write_progress(cluster: ClusterOnPage) -> str:
    if not cluster.namespaces:
        inside = "<p>No pod asks for devices.</p>"
    else:
        names = [words.capitalize() for _, _, words in _SERVED]
        heads = [key(colour) + name for name, (_, colour, _) in zip(names, _SERVED, strict=True)]
        header = ("Namespace", "Mode", "Progress", *heads, "Waiting")
        rows = map(_progress_row, cluster.namespaces)
        inside = table("Pods that ask for devices, by who serves them", header, rows)
        if cluster.more_namespaces:
            number = count_noun(cluster.more_namespaces, "more namespace")
            inside += f"<p>{number} not shown.</p>"
    return f'<div id="progress">{inside}</div>\n'


def _progress_row(namespace: NamespaceProgress) -> tuple[str, ...]:
    counts = [getattr(namespace, field) for field, _, _ in _SERVED]
    colours = [(colour, number) for (_, colour, _), number in zip(_SERVED, counts, strict=True)]
    said = (
        f"{namespace.served:,} of {count_noun(namespace.pods, 'pod')} with devices of drivers"
        if namespace.pods
        else "no pods"
    )
    progress = f"{said}{bar(colours) if namespace.pods else ''}"
    numbers = [f"{number:,}" for number in counts]
    return (
        text(namespace.namespace, _NAME),
        text(namespace.mode),
        progress,
        *numbers,
        f"{namespace.waiting:,}",
    )


def _write_quotas(quotas: QuotasOnPage | None) -> Iterator[str | WrittenPart]:
    """Yield the heading and the table of quotas, if the configuration has some."""
    if quotas is None:
        return
    yield '<h2 id="quotas">Quotas</h2>\n'
    if not quotas.is_known:
        inside = "<p>You may not read ResourceClaims: what is used is not known.</p>"
    elif not quotas.lines:
        inside = "<p>No namespace has devices that a quota limits.</p>"
    else:
        header = ("Namespace", "Quota", "Class", "Amount", "Share", "Used", "Limit", "Left")
        rows = map(_quota_row, quotas.lines)
        inside = table("What claims have of their quotas, without reservations", header, rows)
        if quotas.more_lines:
            inside += f"<p>{count_noun(quotas.more_lines, 'more line')} not shown.</p>"
    yield WrittenPart("quotas-used", f'<div id="quotas-used">{inside}</div>\n')


def _quota_row(line: QuotaOnPage) -> tuple[str, ...]:
    shares = (("held", line.per_mille), ("free", 1000 - line.per_mille))
    return (
        text(line.namespace, _NAME) if line.namespace else "all selected together",
        text(line.quota, _NAME),
        text(line.device_class, _NAME),
        text(line.amount, _NAME),
        f"{line.per_mille // 10} %{bar(shares)}",
        text(line.used),
        text(line.limit),
        text(line.left),
    )


# --- nodes ---------------------------------------------------------------------------------------


def _write_group(group: NodeGroupOnPage) -> Iterator[str | WrittenPart]:
    name = hash_name("group", group.name)
    heading = f'<h3 id="{name}">{isolated(group.name, _NAME)}</h3>'
    yield f'<section aria-labelledby="{name}">\n{heading}\n'
    summed = hash_name("sum", group.name)
    states = {
        state: number
        for state in DeviceState
        if (number := sum(each.states.get(state, 0) for each in group.nodes))
    }
    said = count_noun(len(group.nodes), "node")
    said += f", {describe_states(states)}" if states else ""
    said += _describe_block(group)
    colours = bar([(state.value, number) for state, number in states.items()]) if states else ""
    yield WrittenPart(summed, f'<div id="{summed}"><p>{text(said)}</p>{colours}</div>\n')
    for node in group.nodes:
        yield write_node(node)
    yield "</section>\n"


def _describe_block(group: NodeGroupOnPage) -> str:
    """Return the most free devices of one node, and the most free units of a plugin."""
    free = max((each.states.get(DeviceState.FREE, 0) for each in group.nodes), default=0)
    blocks = [f"{count_noun(free, 'device')}"] if free else []
    units: dict[str, int] = {}
    for plugin in (plugin for node in group.nodes for plugin in node.plugins):
        left = plugin.offered - plugin.held if plugin.held is not None else 0
        units[plugin.name] = max(units.get(plugin.name, 0), left)
    blocks += [f"{number:,} {name}" for name, number in sorted(units.items()) if number > 0]
    return f"; largest free block on one node: {', '.join(blocks)}" if blocks else ""


def write_node(node: NodeOnPage) -> WrittenPart:
    """Write a node as a bar, which opens to its devices."""
    name = hash_name("node", node.name)
    said = [describe_states(node.states)] if node.states else []
    said += [_describe_plugin(each) for each in node.plugins]
    said += node.notes
    counts = text("; ".join(said) or "no devices", _NOTES)
    summary = f'<span class="name">{text(node.name, 2 * _NAME)}</span>{bar(_colours(node))}'
    return WrittenPart(
        name,
        f'<details class="node" id="{name}"><summary>{summary}<span class="counts">{counts}</span>'
        f'</summary><div class="devices">{"".join(_write_devices(node))}</div></details>\n',
    )


def _colours(node: NodeOnPage) -> Iterator[tuple[str, int]]:
    """Yield the colours of a node: of each device, and of each resource of a device plugin.

    A resource is as wide as eight devices, because its units may be megabytes.
    """
    for numa in node.numa_nodes:
        for root in numa.roots:
            yield from ((device.state.value, _WIDTH // 8) for device in root.devices)
    for plugin in node.plugins:
        yield from _colours_of(plugin)


def _colours_of(plugin: PluginOnPage) -> Iterator[tuple[str, int]]:
    if plugin.held is None:
        yield "unknown", _WIDTH
    else:
        held = _WIDTH * min(plugin.held, plugin.offered) // max(plugin.offered, 1)
        yield "held", held
        yield "free", _WIDTH - held


def _describe_plugin(plugin: PluginOnPage) -> str:
    if plugin.held is None:
        return f"{plugin.name} {plugin.offered:,}, not known how many are held"
    return f"{plugin.name} {plugin.held:,} of {plugin.offered:,} held"


def _write_devices(node: NodeOnPage) -> Iterator[str]:
    if not (node.numa_nodes or node.others):
        yield "<p>No device of a driver, and nobody who holds one.</p>"
    if node.numa_nodes:
        yield "<ul>"
        for numa in node.numa_nodes:
            yield f"<li>{text(numa.name, _NAME)}<ul>"
            for root in numa.roots:
                devices = "".join(map(_write_device, root.devices))
                yield f"<li>{text(root.name, _NAME)}<ul>{devices}</ul></li>"
            yield "</ul></li>"
        yield "</ul>"
    if node.others:
        yield "<p>Held beside the devices that are published:</p><ul>"
        yield from (f"<li>{_write_holder(each)}</li>" for each in node.others)
        yield "</ul>"
    if node.more_others:
        yield f"<p>{count_noun(node.more_others, 'more holder')} not shown.</p>"


def _write_device(device: DeviceOnPage) -> str:
    about = ", ".join(filter(None, (device.product, device.capacity, *device.taints)))
    holders = "; ".join(map(_write_holder, device.holders))
    if device.more_holders:
        holders += f"; {count_noun(device.more_holders, 'more holder')}"
    return (
        f"<li>{key(device.state.value)}<b>{text(device.name, _NAME)}</b>"
        f' <span class="quiet">{text(device.driver, _NAME)}</span>'
        f"{f' <bdi>{text(about, _NAME)}</bdi>' if about else ''}: {STATE_WORDS[device.state]}"
        f"{f' by {holders}' if holders else ''}</li>"
    )


def _write_holder(holder: HolderOnPage) -> str:
    pods = [isolated(each, 2 * _NAME) for each in holder.pods]
    if holder.more_pods:
        pods.append(count_noun(holder.more_pods, "more pod"))
    listed = ", ".join(pods) or "no pod"
    who = f"{isolated(holder.claim, 2 * _NAME)} for {listed}" if holder.claim else listed
    amounts = f", {isolated(holder.amounts, _NAME)}" if holder.amounts else ""
    since = f", since {text(holder.since, _NAME)}" if holder.since else ""
    return f"{who}{amounts}{since}"


def _write_more_nodes(cluster: ClusterOnPage) -> str:
    if not cluster.more_nodes:
        return ""
    number = count_noun(cluster.more_nodes, "more node")
    return f"<p>{number} not shown: <code>drawbridge explain node/NAME</code> shows one.</p>\n"
