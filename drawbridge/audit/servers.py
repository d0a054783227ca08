"""Who serves the devices of a node now: its device plugins, found by what their pods mount.

The kubelet's registration folder tells a device plugin from any other pod. The names of images say
whose it is. Without such pods, the annotations of the node tell HAMi's plugin from others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.audit.allowed_nodes import AllowedNodes
from drawbridge.audit.objects import MAX_TEXT, controllers_of, namespace_of, text_at
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.families import FAMILIES, NIC, serves_name
from drawbridge.dra.nodes import Node
from drawbridge.facts.served_names import advertised_resources

_FOLDER: Final = "/device-plugins"
_UNKNOWN: Final = "device plugin"
_SRIOV: Final = "SR-IOV device plugin"
# Names of GPUs, which the prefixes of a plugin of NICs can include.
_OF_GPUS: Final = ("nvidia.com/gpu", "nvidia.com/mig-", "intel.com/gpu", "gpu.intel.com/")
# A word in the name or the images of a plugin, what a person calls it, and the names it serves.
_KNOWN: Final = (
    ("hami", "HAMi", ("nvidia.com/", "huawei.com/", "cambricon.com/", "hygon.com/")),
    ("volcano", "Volcano's device plugin", ("volcano.sh/",)),
    ("gpushare", "gpushare's device plugin", ("aliyun.com/",)),
    ("koord", "Koordinator", ("koordinator.sh/",)),
    ("sriov", _SRIOV, ("openshift.io/", "intel.com/", "nvidia.com/", "mellanox.")),
    ("rdma", "RDMA device plugin", ("rdma/",)),
    ("nvidia", "NVIDIA's device plugin", ("nvidia.com/",)),
    ("amd", "AMD's device plugin", ("amd.com/",)),
    ("rocm", "AMD's device plugin", ("amd.com/",)),
    ("intel", "Intel's device plugin", ("gpu.intel.com/", "intel.com/")),
)
# What shows a plugin that no pod of the node shows: an annotation or a name of the node.
_REGISTRATIONS: Final = {"hami.io/node-nvidia-register": "HAMi"}


class Plugin(NamedTuple):
    """A device plugin of a node: what a person calls it, the names it serves, and its owner.

    `owner` is `Kind/name` in `namespace`; both are empty if no pod shows the plugin.
    """

    title: str
    prefixes: tuple[str, ...] = ()
    namespace: str = ""
    owner: str = ""

    @property
    def text(self) -> str:
        """The plugin as a person finds it."""
        named = f"{self.namespace}/{self.owner.partition('/')[2]}"
        return f"{self.title} ({named})" if self.owner else self.title

    def serves(self, names: Iterable[str]) -> bool:
        """Whether any of these names can be the plugin's. An unknown plugin can serve all."""
        if not self.prefixes:
            return any(True for _ in names)
        others = _is_of_gpus if self.title == _SRIOV else _is_of_nics
        return any(name.startswith(self.prefixes) and not others(name) for name in names)


def _is_of_gpus(name: str) -> bool:
    return name.startswith(_OF_GPUS)


def _is_of_nics(name: str) -> bool:
    return any(serves_name(each, name) for each in FAMILIES if each.kind == NIC)


def find_plugins(
    pods: Sequence[Value], workloads: Iterable[Value], nodes: Iterable[Node]
) -> Mapping[str, tuple[Plugin, ...]]:
    """Return the device plugins by node, from the pods that run there or that owners want there."""
    plugins_of: dict[str, dict[Plugin, None]] = {}
    for pod in (*pods, *_expect_pods(workloads, pods, nodes)):
        node = text_at(pod, "spec", "nodeName")
        if node and any(path.endswith(_FOLDER) for path in _host_paths(pod)):
            plugins_of.setdefault(node, {})[_identify(pod)] = None
    return {node: tuple(plugins) for node, plugins in plugins_of.items()}


def _expect_pods(
    workloads: Iterable[Value], pods: Iterable[Value], nodes: Iterable[Node]
) -> Iterator[Value]:
    """Yield pods of plugins' DaemonSets of which none was read, on the nodes that offer devices."""
    seen = {(namespace_of(each), f"{_identify(each).owner}") for each in pods}
    nodes = [each for each in nodes if advertised_resources(each)]
    allowed = AllowedNodes(nodes)
    for workload in workloads:
        name, space = text_at(workload, "metadata", "name"), namespace_of(workload)
        template = get_value(workload, ("spec", "template")) or {}
        is_plugin = any(path.endswith(_FOLDER) for path in _host_paths(template))
        if text_at(workload, "kind") != "DaemonSet" or not is_plugin:
            continue
        owner: Value = {"kind": "DaemonSet", "name": name, "controller": True}
        metadata: Value = {"name": name, "namespace": space, "ownerReferences": [owner]}
        spec = as_mapping(get_value(template, ("spec",)))
        for node in () if (space, f"DaemonSet/{name}") in seen else allowed.find(template, ()):
            yield {"metadata": metadata, "spec": {**spec, "nodeName": node}}


def name_serving(
    names: Iterable[str], plugins: Iterable[Plugin], offered: Iterable[str]
) -> list[Plugin]:
    """Return the plugins of a node that serve any of the names.

    An unknown plugin serves what no prefixed one does, if the node offers anything of the kind.
    """
    plugins, names = [*plugins], [*names]
    prefixed = [each for each in plugins if each.prefixes]
    unexplained = [n for n in {*names, *offered} if not any(p.serves([n]) for p in prefixed)]
    others = [name for name in names if name in unexplained]
    # With nothing else to serve, an unknown plugin may serve what a prefixed one does.
    if not unexplained:
        others = names if not any(each.serves(names) for each in prefixed) else []
    return [e for e in plugins if (e.serves(names) if e.prefixes else bool(others))]


def name_servers(
    names: Iterable[str], plugins: Iterable[Plugin], registrations: Iterable[str]
) -> str:
    """Return who serves these names on a node, in words.

    Several plugins can serve one name, and then it is not known which of them does.
    """
    names, plugins = [*names], [*plugins]
    # Annotations ask without a name, and amounts may be unreadable.
    each_name = [[e.text for e in plugins if e.serves([name])] for name in names]
    of_names = list[dict[str, None]]()
    for serving in each_name if names else [[each.text for each in plugins]]:
        alike = [each for each in of_names if each.keys() & serving]
        of_names = [each for each in of_names if each not in alike]
        of_names.append(dict.fromkeys(text for each in (*alike, serving) for text in each))
    told = [" or ".join(each) for each in of_names if each]
    if not told:
        told = [title for key, title in _REGISTRATIONS.items() if key in registrations]
    return " and ".join(told) or _UNKNOWN


def _host_paths(pod: Value) -> Iterator[str]:
    for volume in as_list(get_value(pod, ("spec", "volumes"))):
        yield text_at(volume, "hostPath", "path").rstrip("/")


def _identify(pod: Value) -> Plugin:
    kind, name = "Pod", text_at(pod, "metadata", "name")
    if controller := next(controllers_of(pod), None):
        kind, name = (f"{controller.get(key)}"[:MAX_TEXT] for key in ("kind", "name"))
    images = (text_at(each, "image") for each in as_list(get_value(pod, ("spec", "containers"))))
    words = " ".join((name, *images)).lower()
    title, prefixes = next(
        ((title, prefixes) for word, title, prefixes in _KNOWN if word in words), (_UNKNOWN, ())
    )
    return Plugin(title, prefixes, namespace_of(pod), f"{kind}/{name}")
