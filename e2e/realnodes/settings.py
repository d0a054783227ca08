"""Builds the configuration files of containerd, kubelet, kube-proxy and the network. Pure.

kubelet, kube-proxy and CNI read JSON, which is YAML too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
PAUSE = "drawbridge.test/pause:1"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")


def containerd(root: Path, network: Path, plugins: Path, runc: Path) -> str:
    """Return the configuration of containerd with one runtime."""
    cri = "plugins.'io.containerd.cri.v1"
    runtime = f"{cri}.runtime'.containerd.runtimes.runc"
    # Without CAP_SYS_RESOURCE runc cannot lower the score, and no sandbox would start.
    return f"""version = 4
root = '{root}'
state = '{CONTAINERD_SOCKET.parent}'
[{cri}.images'.pinned_images]
  sandbox = '{PAUSE}'
[{cri}.runtime']
  restrict_oom_score_adj = true
[{cri}.runtime'.cni]
  bin_dirs = ['{plugins}']
  conf_dir = '{network}'
  use_internal_loopback = true
[{runtime}]
  runtime_type = 'io.containerd.runc.v2'
[{runtime}.options]
  BinaryName = '{runc}'
  SystemdCgroup = false
"""


def network(pods: str) -> JSON:
    """Return the network of a node: each pod has a routed veth and an address of `pods`.

    The range is fixed, because one that a controller gives comes seconds later.
    """
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "rig", "plugins": [plugin]}


def kubelet(folder: Path, cgroup: str, gates: Mapping[str, bool]) -> JSON:
    """Return the KubeletConfiguration of a node.

    Only the rig's namespace reaches the kubelet, so it asks nobody for credentials. Nodes share one
    disk, whose state must not evict pods. Status and leases are quick, so that a dead node shows.
    """
    signals = ("memory.available", "nodefs.available", "nodefs.inodesFree")
    images = ("imagefs.available", "imagefs.inodesFree")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(folder / "resolv.conf"),
        "volumePluginDir": str(folder / "volumeplugins"),
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "evictionHard": dict.fromkeys((*signals, *images), "0%"),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 4,
        "syncFrequency": "10s",
        "featureGates": dict(gates),
    }


def proxy(access: Path, node: str) -> JSON:
    """Return the KubeProxyConfiguration; `node` must exist, else it waits for it for 30 s."""
    # These settings are not a network namespace's to change.
    unlimited = {"maxPerCore": 0, "min": 0}
    kept = {"tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(access)},
        "hostnameOverride": node,
        "clusterCIDR": PODS,
        "conntrack": {**unlimited, **kept},
    }
