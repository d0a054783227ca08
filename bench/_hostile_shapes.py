"""Shapes of hostile pods: each repeats one part of a pod."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Pod = dict[str, Any]
Limits = Mapping[str, object]
KOORDINATOR: Final = "scheduling.koordinator.sh/"
NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
HINT: Final = f"{KOORDINATOR}device-allocate-hint"
TENSOR_FUSION: Final = "tensor-fusion.ai/"
PRODUCT: Final = "nvidia.com/gpu.product"
KINDS: Final = {f"nvidia.com/mig-1g.{i}gb": 1 for i in range(8)} | {"rdma/hca": 1}


def container(name: str, limits: Limits, **more: object) -> Pod:
    """Make a container with these limits."""
    return {"name": name, "resources": {"limits": dict(limits)}, **more}


def share(number: int) -> dict[str, object]:
    """Request a share of a GPU that no other container requests."""
    return {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000 + number}


def pod(spec: Mapping[str, object], annotations: Mapping[str, str] | None = None) -> Pod:
    """Make a pod; without containers in `spec` it has one that requests a share."""
    own: Mapping[str, object] = {"containers": [container("main", share(0))]}
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": {**own, **spec}}


def _containers(
    count: int, limits: Callable[[int], Limits] = share, letter: str = "c"
) -> list[Pod]:
    return [container(f"{letter}{i}", limits(i)) for i in range(count)]


def _of(count: int, limits: Callable[[int], Limits] = share, **spec: object) -> Pod:
    """Make a pod with as many containers."""
    return pod({"containers": _containers(count, limits), **spec})


def _alone(limits: Limits, annotations: Mapping[str, str] | None = None, **more: object) -> Pod:
    """Make a pod with one container."""
    return pod({"containers": [container("main", limits, **more)]}, annotations)


def _init(inits: list[Pod], containers: list[Pod]) -> Pod:
    return pod({"initContainers": inits, "containers": containers})


def _gpus(number: int) -> Callable[[int], Limits]:
    return lambda _: {"nvidia.com/gpu": number}


def _mig(count: int, amount: Callable[[int], object] = lambda _: 1) -> Limits:
    return {f"nvidia.com/mig-1g.{i}gb": amount(i) for i in range(count)}


def _priorities(count: int) -> Pod:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/priority": 1}
    env = [{"name": f"A{i}"} for i in range(count)]
    init = container("init", {"nvidia.com/gpu": count, "nvidia.com/priority": 1}, env=env)
    return _init([init], _containers(count, lambda _: limits))


def _claims(count: int) -> Pod:
    named = ["drawbridge", *(f"drawbridge-{i}" for i in range(2, count))]
    return _of(8, resourceClaims=[{"name": name} for name in named])


def _container_claims(count: int) -> Pod:
    claims = [{"name": f"claim-{i}"} for i in range(count)]
    main = {"name": "main", "resources": {"limits": share(1), "claims": claims}}
    return pod({"containers": [main]})


def _network_functions(count: int) -> Pod:
    made = _containers(count, lambda _: {"openshift.io/sriov_a": 1})
    return pod({"containers": made}, {NETWORKS: ",".join(f"net-a@i{i}" for i in range(count))})


def _hinted(key: str, value: object) -> Pod:
    text = value if isinstance(value, str) else json.dumps(value)
    return _alone({"koordinator.sh/gpu": 100}, {key: text})


def _counts(count: int) -> Pod:
    counts = json.dumps({f"c{i}": i for i in range(count)})
    values = {"enabled": "true", "gpu-count-per-container": counts}
    values |= {"tflops-request": "1", "vram-request": "1Gi"}
    return pod({}, {f"{TENSOR_FUSION}{key}": value for key, value in values.items()})


def _selecting(count: int, key: str, values: str, limits: Callable[[int], Limits] = share) -> Pod:
    return pod({"containers": _containers(max(1, count), limits)}, {key: values})


def _affinity(required: list[Pod], preferred: list[Pod] | None = None) -> Pod:
    terms: Pod = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    if preferred is not None:
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"affinity": {"nodeAffinity": terms}}


def _term(*expressions: Pod) -> Pod:
    return {"matchExpressions": list(expressions)}


def _expression(number: int, key: str = PRODUCT) -> Pod:
    return {"key": key, "operator": "In", "values": [f"A{number}"]}


def _mixed_terms(count: int) -> Pod:
    terms = [_term(_expression(i), _expression(i, "zone")) for i in range(count // 2)]
    both = _term(*map(_expression, range(count)))
    return pod(_affinity([both, both, *terms]))


def _preferences(count: int) -> Pod:
    preferred = [{"weight": 1, "preference": _term(_expression(i))} for i in range(count)]
    return pod(_affinity([], preferred))


def _undo(count: int, steps: list[Pod], **spec: object) -> Pod:
    text = json.dumps(steps, separators=(",", ":"))
    main = container("main", share(0), args=["a"] * count)
    return pod({"containers": [main], **spec}, {"drawbridge.dev/original": text})


def _undo_steps(count: int, step: Callable[[int], Pod]) -> Pod:
    return _undo(count, [step(i) for i in range(min(4000, count // 16))])


def _step(operation: str, path: str, **value: object) -> Pod:
    return {"op": operation, "path": path, **value}


def _undo_moves(count: int) -> Pod:
    half = min(2000, count // 64)
    steps = []
    for i in range(half):
        steps.append(_step("test", f"/spec/volumes/{i}/name", value=f"v{i}"))
        steps.append(_step("add", "/spec/volumes/0", value=1))
    return _undo(1, steps, volumes=[{"name": f"v{i}"} for i in range(half)])


def _undo_comparisons(count: int) -> Pod:
    item = [[i] for i in range(max(1, count // 64))]
    step = _step("test", "/spec/volumes/0", value=[*item, 0])
    return _undo(1, [step] * 8, volumes=[[*item, 1]] * 8 + [[*item, 0]])


_ARGS: Final = "/spec/containers/0/args"
SHAPES: Final[Mapping[str, Callable[[int], Pod]]] = {
    "containers with a share each": _of,
    "containers with equal shares": lambda n: _of(n, lambda _: share(1)),
    "containers with a GPU each": lambda n: _of(n, _gpus(1)),
    "containers with 256 GPUs each": lambda n: _of(n, _gpus(256)),
    "init containers beside containers": lambda n: _init(
        _containers(n // 2, lambda i: share(i + 1), "i"), _containers(n // 2)
    ),
    "init containers that share one device": lambda n: _init(
        _containers(n, letter="i"), [container("main", share(n))]
    ),
    "init containers that span all devices": lambda n: _init(
        _containers(n // 2, lambda _: {"nvidia.com/gpu": n // 2, "nvidia.com/gpumem": 1}, "i"),
        _containers(n // 2),
    ),
    "init containers with 256 GPUs each": lambda n: _init(
        _containers(n, _gpus(256), "i"), [container("main", {"nvidia.com/gpu": 256})]
    ),
    "init containers with several kinds": lambda n: _init(
        _containers(max(1, n // 16), lambda _: KINDS, "i"),
        _containers(max(1, n // 16), lambda _: KINDS),
    ),
    "resource names in one container": lambda n: _alone(_mig(n)),
    "unknown resource names": lambda n: _alone(
        {f"example.com/device-{i}": 1 for i in range(n)} | share(1)
    ),
    "RDMA tokens in one container": lambda n: _alone(
        {f"rdma/hca_{i}": 1 for i in range(n)} | {"nvidia.com/gpu": 1}
    ),
    "RDMA tokens beside GPUs": lambda n: _of(n, lambda _: {"nvidia.com/gpu": 1, "rdma/hca": 1}),
    "variables to remove": lambda n: _alone(
        share(1), env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} for _ in range(n)]
    ),
    "variables to remove between others": lambda n: _alone(
        share(1), env=[{"name": ("NVIDIA_VISIBLE_DEVICES", f"A{i}")[i % 2]} for i in range(n)]
    ),
    "variables to add": lambda n: _priorities(n // 2),
    "variables with names of devices": lambda n: _alone(
        share(1), env=[{"name": "CUDA_VISIBLE_DEVICES", "value": f"{i}"} for i in range(n)]
    ),
    "tolerations beside resource names": lambda n: pod(
        {
            "containers": [container("main", _mig(n // 2))],
            "tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n // 2)],
        }
    ),
    "volumes": lambda n: pod(
        {
            "volumes": [
                {"name": f"v{i}", "hostPath": {"path": "/dev/infiniband/x"}} for i in range(n)
            ]
        }
    ),
    "claims of the pod": _claims,
    "claims of a container": _container_claims,
    "networks": lambda n: pod({}, {NETWORKS: ",".join(f"net-a@i{i}" for i in range(n))}),
    "networks for functions": lambda n: _network_functions(n // 2),
    "networks as objects": lambda n: pod(
        {},
        {
            NETWORKS: json.dumps(
                [{"name": "net-a", "interface": f"i{i}", "x": [[i]]} for i in range(n)]
            )
        },
    ),
    "labels of devices": lambda n: _hinted(
        HINT, {"gpu": {"selector": {"matchLabels": {f"label-{i}": "x" for i in range(n)}}}}
    ),
    "types of devices": lambda n: _hinted(
        HINT, {f"type-{i}": {"requiredTopologyScope": "x"} for i in range(n)}
    ),
    "types of a joint allocation": lambda n: _hinted(
        f"{KOORDINATOR}device-joint-allocate",
        {"deviceTypes": ["gpu", *(f"type-{i}" for i in range(n))]},
    ),
    "counts of containers": _counts,
    "nested annotation": lambda n: _hinted(HINT, f"{'[' * n}{']' * n}"),
    "UUIDs for many containers": lambda n: _selecting(
        n // 8, "nvidia.com/use-gpuuuid", ",".join(f"GPU-{i}" for i in range(n))
    ),
    "products for many containers": lambda n: _selecting(
        n // 16,
        "nvidia.com/use-gputype",
        ",".join(f"A{i}" for i in range(n)),
        lambda _: {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 10},
    ),
    "node labels for many containers": lambda n: _of(
        max(1, n // 8), nodeSelector={f"{PRODUCT}{i}": "A100" for i in range(n)}
    ),
    "expressions for many containers": lambda n: _of(
        max(1, n // 8), **_affinity([_term(*map(_expression, range(n)))])
    ),
    "values for many containers": lambda n: _of(
        max(1, n // 16),
        **_affinity([_term(_expression(0) | {"values": [f"A{i}" for i in range(n)]})]),
    ),
    "terms for many containers": lambda n: _of(
        max(1, n // 16), **_affinity([_term(_expression(i)) for i in range(n)])
    ),
    "terms that stay": _mixed_terms,
    "preferences": _preferences,
    "annotations": lambda n: pod({}, {f"{KOORDINATOR}a{i}": "x" for i in range(n)}),
    "long numbers": lambda n: _alone(_mig(n, lambda _: "9" * 400)),
    "one long number": lambda n: _alone({"nvidia.com/gpu": "9" * n}),
    "exponents": lambda n: _alone(_mig(n, lambda i: f"1e{i}")),
    "names in Unicode": lambda n: pod({"containers": _containers(n, letter="\u4e2d" * 60)}),
    "long names of init containers": lambda n: _init(
        _containers(n, letter="n" * 2000), [container("main", share(n))]
    ),
    "undo: insertions into a long list": lambda n: _undo_steps(
        n, lambda _: _step("add", f"{_ARGS}/0", value="x")
    ),
    "undo: removals from a long list": lambda n: _undo_steps(
        n, lambda _: _step("remove", f"{_ARGS}/0")
    ),
    "undo: tests of a long list": lambda n: _undo_steps(
        n, lambda _: _step("test", f"{_ARGS}/0", value="x")
    ),
    "undo: items that move": _undo_moves,
    "undo: comparisons": _undo_comparisons,
    "undo: merged lists": lambda n: _undo_steps(n, lambda i: _step("add", _ARGS, value=[f"{i}"])),
    "undo: objects": lambda n: _undo(
        1, [_step("test", _ARGS, value={f"k{i}": [{}] for i in range(n)})]
    ),
}
