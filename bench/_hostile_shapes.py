"""Shapes of hostile pods: each repeats one part of a pod."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Pod = dict[str, Any]
KOORDINATOR: Final = "scheduling.koordinator.sh/"
NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"


def container(name: str, limits: Mapping[str, object], **more: object) -> Pod:
    """Make a container with these limits."""
    return {"name": name, "resources": {"limits": dict(limits)}, **more}


def share(number: int) -> dict[str, object]:
    """Request a share of a GPU that no other container requests."""
    return {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000 + number}


def pod(spec: Mapping[str, object], annotations: Mapping[str, str] | None = None) -> Pod:
    """Make a pod; without containers in `spec` it has one that requests a share."""
    own: Mapping[str, object] = {"containers": [container("main", share(0))]}
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": {**own, **spec}}


def _containers(count: int) -> Pod:
    return pod({"containers": [container(f"c{i}", share(i)) for i in range(count)]})


def _equal_containers(count: int) -> Pod:
    return pod({"containers": [container(f"c{i}", share(1)) for i in range(count)]})


def _whole(count: int) -> Pod:
    each = [container(f"c{i}", {"nvidia.com/gpu": 1}) for i in range(count)]
    return pod({"containers": each})


def _many_devices(count: int) -> Pod:
    each = [container(f"c{i}", {"nvidia.com/gpu": 256}) for i in range(count)]
    return pod({"containers": each})


def _init(count: int) -> Pod:
    half = count // 2
    return pod(
        {
            "initContainers": [container(f"i{i}", share(i + 1)) for i in range(half)],
            "containers": [container(f"c{i}", share(i)) for i in range(half)],
        }
    )


def _init_sharing(count: int) -> Pod:
    each = [container(f"i{i}", share(i)) for i in range(count)]
    return pod({"initContainers": each, "containers": [container("main", share(count))]})


def _init_spanning(count: int) -> Pod:
    half = count // 2
    many = {"nvidia.com/gpu": half, "nvidia.com/gpumem": 1}
    return pod(
        {
            "initContainers": [container(f"i{i}", many) for i in range(half)],
            "containers": [container(f"c{i}", share(i)) for i in range(half)],
        }
    )


def _init_kinds(count: int) -> Pod:
    """Let init containers share devices of several kinds."""
    kinds = {f"nvidia.com/mig-1g.{i}gb": 1 for i in range(8)} | {"rdma/hca": 1}
    few = max(1, count // 16)
    return pod(
        {
            "initContainers": [container(f"i{i}", kinds) for i in range(few)],
            "containers": [container(f"c{i}", kinds) for i in range(few)],
        }
    )


def _init_of_many(count: int) -> Pod:
    each = [container(f"i{i}", {"nvidia.com/gpu": 256}) for i in range(count)]
    main = container("main", {"nvidia.com/gpu": 256})
    return pod({"initContainers": each, "containers": [main]})


def _resource_names(count: int) -> Pod:
    limits = {f"nvidia.com/mig-1g.{i}gb": 1 for i in range(count)}
    return pod({"containers": [container("main", limits)]})


def _unknown_names(count: int) -> Pod:
    limits = {f"example.com/device-{i}": 1 for i in range(count)} | share(1)
    return pod({"containers": [container("main", limits)]})


def _tokens(count: int) -> Pod:
    limits = {f"rdma/hca_{i}": 1 for i in range(count)} | {"nvidia.com/gpu": 1}
    return pod({"containers": [container("main", limits)]})


def _tokens_and_gpus(count: int) -> Pod:
    both = {"nvidia.com/gpu": 1, "rdma/hca": 1}
    return pod({"containers": [container(f"c{i}", both) for i in range(count)]})


def _environment(count: int) -> Pod:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} for _ in range(count)]
    return pod({"containers": [container("main", share(1), env=env)]})


def _environment_mixed(count: int) -> Pod:
    env = [{"name": ("NVIDIA_VISIBLE_DEVICES", f"A{i}")[i % 2]} for i in range(count)]
    return pod({"containers": [container("main", share(1), env=env)]})


def _priorities(count: int) -> Pod:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/priority": 1}
    half = count // 2
    return pod(
        {
            "initContainers": [
                container(
                    "init",
                    {"nvidia.com/gpu": half, "nvidia.com/priority": 1},
                    env=[{"name": f"A{i}"} for i in range(half)],
                )
            ],
            "containers": [container(f"c{i}", limits) for i in range(half)],
        }
    )


def _tolerations(count: int) -> Pod:
    half = count // 2
    limits = {f"nvidia.com/mig-1g.{i}gb": 1 for i in range(half)}
    each = [{"key": f"k{i}", "operator": "Exists"} for i in range(half)]
    return pod({"containers": [container("main", limits)], "tolerations": each})


def _devices_by_name(count: int) -> Pod:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": f"{i}"} for i in range(count)]
    return pod({"containers": [container("main", share(1), env=env)]})


def _volumes(count: int) -> Pod:
    each = [{"name": f"v{i}", "hostPath": {"path": "/dev/infiniband/x"}} for i in range(count)]
    return pod({"volumes": each})


def _claims(count: int) -> Pod:
    named = ["drawbridge", *(f"drawbridge-{i}" for i in range(2, count))]
    spec = _containers(8)["spec"]
    return pod({**spec, "resourceClaims": [{"name": each} for each in named]})


def _container_claims(count: int) -> Pod:
    claims = [{"name": f"claim-{i}"} for i in range(count)]
    main = {"name": "main", "resources": {"limits": share(1), "claims": claims}}
    return pod({"containers": [main]})


def _networks(count: int) -> Pod:
    return pod({}, {NETWORKS: ",".join(f"net-a@i{i}" for i in range(count))})


def _network_functions(count: int) -> Pod:
    half = count // 2
    each = [container(f"c{i}", {"openshift.io/sriov_a": 1}) for i in range(half)]
    names = ",".join(f"net-a@i{i}" for i in range(half))
    return pod({"containers": each}, {NETWORKS: names})


def _network_objects(count: int) -> Pod:
    listed = [{"name": "net-a", "interface": f"i{i}", "x": [[i]]} for i in range(count)]
    return pod({}, {NETWORKS: json.dumps(listed)})


def _hints(count: int) -> Pod:
    labels = {f"label-{i}": "x" for i in range(count)}
    hint = {"gpu": {"selector": {"matchLabels": labels}}}
    main = container("main", {"koordinator.sh/gpu": 100})
    return pod({"containers": [main]}, {f"{KOORDINATOR}device-allocate-hint": json.dumps(hint)})


def _hint_types(count: int) -> Pod:
    hint = {f"type-{i}": {"requiredTopologyScope": "x"} for i in range(count)}
    main = container("main", {"koordinator.sh/gpu": 100})
    return pod({"containers": [main]}, {f"{KOORDINATOR}device-allocate-hint": json.dumps(hint)})


def _joint_types(count: int) -> Pod:
    joint = {"deviceTypes": ["gpu", *(f"type-{i}" for i in range(count))]}
    main = container("main", {"koordinator.sh/gpu": 100})
    return pod({"containers": [main]}, {f"{KOORDINATOR}device-joint-allocate": json.dumps(joint)})


def _counts(count: int) -> Pod:
    prefix = "tensor-fusion.ai/"
    counts = json.dumps({f"c{i}": i for i in range(count)})
    notes = {f"{prefix}enabled": "true", f"{prefix}gpu-count-per-container": counts}
    return pod({}, notes | {f"{prefix}tflops-request": "1", f"{prefix}vram-request": "1Gi"})


def _nested(count: int) -> Pod:
    text = f"{'[' * count}{']' * count}"
    main = container("main", {"koordinator.sh/gpu": 100})
    return pod({"containers": [main]}, {f"{KOORDINATOR}device-allocate-hint": text})


def _uuids(count: int) -> Pod:
    uuids = ",".join(f"GPU-{i}" for i in range(count))
    return pod(_containers(max(1, count // 8))["spec"], {"nvidia.com/use-gpuuuid": uuids})


def _products(count: int) -> Pod:
    names = ",".join(f"A{i}" for i in range(count))
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 10}
    each = [container(f"c{i}", limits) for i in range(max(1, count // 16))]
    return pod({"containers": each}, {"nvidia.com/use-gputype": names})


def _node_selector(count: int) -> Pod:
    labels = {f"nvidia.com/gpu.product{i}": "A100" for i in range(count)}
    return pod({**_containers(max(1, count // 8))["spec"], "nodeSelector": labels})


def _affinity(required: list[Pod], preferred: list[Pod] | None = None) -> Pod:
    terms: Pod = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    if preferred is not None:
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"affinity": {"nodeAffinity": terms}}


def _expression(number: int, key: str = "nvidia.com/gpu.product") -> Pod:
    return {"key": key, "operator": "In", "values": [f"A{number}"]}


def _expressions(count: int) -> Pod:
    term = {"matchExpressions": [_expression(i) for i in range(count)]}
    return pod({**_containers(max(1, count // 8))["spec"], **_affinity([term])})


def _values(count: int) -> Pod:
    one = _expression(0) | {"values": [f"A{i}" for i in range(count)]}
    term = {"matchExpressions": [one]}
    return pod({**_containers(max(1, count // 16))["spec"], **_affinity([term])})


def _terms(count: int) -> Pod:
    terms = [{"matchExpressions": [_expression(i)]} for i in range(count)]
    return pod({**_containers(max(1, count // 16))["spec"], **_affinity(terms)})


def _mixed_terms(count: int) -> Pod:
    terms = [
        {"matchExpressions": [_expression(i), _expression(i, "zone")]} for i in range(count // 2)
    ]
    both = {"matchExpressions": [_expression(i) for i in range(count)]}
    return pod(_affinity([both, both, *terms]))


def _preferences(count: int) -> Pod:
    each = [
        {"weight": 1, "preference": {"matchExpressions": [_expression(i)]}} for i in range(count)
    ]
    return pod(_affinity([], each))


def _annotations(count: int) -> Pod:
    return pod({}, {f"{KOORDINATOR}a{i}": "x" for i in range(count)})


def _numbers(count: int) -> Pod:
    limits = {f"nvidia.com/mig-1g.{i}gb": "9" * 400 for i in range(count)}
    return pod({"containers": [container("main", limits)]})


def _long_number(count: int) -> Pod:
    return pod({"containers": [container("main", {"nvidia.com/gpu": "9" * count})]})


def _exponents(count: int) -> Pod:
    limits = {f"nvidia.com/mig-1g.{i}gb": f"1e{i}" for i in range(count)}
    return pod({"containers": [container("main", limits)]})


def _unicode(count: int) -> Pod:
    each = [container("\u4e2d" * 60 + f"{i}", share(i)) for i in range(count)]
    return pod({"containers": each})


def _long_names(count: int) -> Pod:
    each = [container("n" * 2000 + f"{i}", share(i)) for i in range(count)]
    return pod({"initContainers": each, "containers": [container("main", share(count))]})


def _undo(count: int, steps: list[Pod], **spec: object) -> Pod:
    text = json.dumps(steps, separators=(",", ":"))
    main = container("main", share(0), args=["a"] * count)
    return pod({"containers": [main], **spec}, {"drawbridge.dev/original": text})


def _undo_insertions(count: int) -> Pod:
    step = {"op": "add", "path": "/spec/containers/0/args/0", "value": "x"}
    return _undo(count, [step] * min(4000, count // 16))


def _undo_removals(count: int) -> Pod:
    step = {"op": "remove", "path": "/spec/containers/0/args/0"}
    return _undo(count, [step] * min(4000, count // 16))


def _undo_tests(count: int) -> Pod:
    step = {"op": "test", "path": "/spec/containers/0/args/0", "value": "x"}
    return _undo(count, [step] * min(4000, count // 16))


def _undo_moves(count: int) -> Pod:
    half = min(2000, count // 64)
    steps = [
        {"op": "test", "path": f"/spec/volumes/{i}/name", "value": f"v{i}"} for i in range(half)
    ]
    moves = [{"op": "add", "path": "/spec/volumes/0", "value": 1}] * half
    listed = [{"name": f"v{i}"} for i in range(half)]
    return _undo(1, [step for both in zip(steps, moves, strict=True) for step in both],
                 volumes=listed)  # fmt: skip


def _undo_comparisons(count: int) -> Pod:
    item = [[i] for i in range(max(1, count // 64))]
    step = {"op": "test", "path": "/spec/volumes/0", "value": [*item, 0]}
    volumes = [[*item, 1]] * 8 + [[*item, 0]]
    return _undo(1, [step] * 8, volumes=volumes)


def _undo_objects(count: int) -> Pod:
    value = {f"k{i}": [{}] for i in range(count)}
    step = {"op": "test", "path": "/spec/containers/0/args", "value": value}
    return _undo(1, [step])


def _undo_merges(count: int) -> Pod:
    steps = [
        {"op": "add", "path": "/spec/containers/0/args", "value": [f"{i}"]}
        for i in range(min(4000, count // 16))
    ]
    return _undo(count, steps)


SHAPES: Final[Mapping[str, Callable[[int], Pod]]] = {
    "containers with a share each": _containers,
    "containers with equal shares": _equal_containers,
    "containers with a GPU each": _whole,
    "containers with 256 GPUs each": _many_devices,
    "init containers beside containers": _init,
    "init containers that share one device": _init_sharing,
    "init containers that span all devices": _init_spanning,
    "init containers with 256 GPUs each": _init_of_many,
    "init containers with several kinds": _init_kinds,
    "resource names in one container": _resource_names,
    "unknown resource names": _unknown_names,
    "RDMA tokens in one container": _tokens,
    "RDMA tokens beside GPUs": _tokens_and_gpus,
    "variables to remove": _environment,
    "variables to remove between others": _environment_mixed,
    "variables to add": _priorities,
    "variables with names of devices": _devices_by_name,
    "tolerations beside resource names": _tolerations,
    "volumes": _volumes,
    "claims of the pod": _claims,
    "claims of a container": _container_claims,
    "networks": _networks,
    "networks for functions": _network_functions,
    "networks as objects": _network_objects,
    "labels of devices": _hints,
    "types of devices": _hint_types,
    "types of a joint allocation": _joint_types,
    "counts of containers": _counts,
    "nested annotation": _nested,
    "UUIDs for many containers": _uuids,
    "products for many containers": _products,
    "node labels for many containers": _node_selector,
    "expressions for many containers": _expressions,
    "values for many containers": _values,
    "terms for many containers": _terms,
    "terms that stay": _mixed_terms,
    "preferences": _preferences,
    "annotations": _annotations,
    "long numbers": _numbers,
    "one long number": _long_number,
    "exponents": _exponents,
    "names in Unicode": _unicode,
    "long names of init containers": _long_names,
    "undo: insertions into a long list": _undo_insertions,
    "undo: removals from a long list": _undo_removals,
    "undo: tests of a long list": _undo_tests,
    "undo: items that move": _undo_moves,
    "undo: comparisons": _undo_comparisons,
    "undo: merged lists": _undo_merges,
    "undo: objects": _undo_objects,
}
