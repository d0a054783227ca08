"""Generates nodes and pools of slices: every form of node selection, and damaged pools."""

from dataclasses import dataclass

from e2e.generator.devices import DRIVERS, GPU, NIC, Json, counter_sets, device, taint
from e2e.generator.draw import Draw
from e2e.generator.plan import Plan

ZONE = "topology.example.com/zone"
FORMS = {"local": 0.45, "all": 0.17, "selector": 0.15, "device": 0.10, "spread": 0.13}


@dataclass(frozen=True)
class GeneratedPool:
    """Where a pool's slices and devices can be reached."""

    driver: str
    name: str
    form: str
    nodes: list[str]


def nodes(draw: Draw, plan: Plan) -> list[Json]:
    """One to three nodes in two zones."""
    out: list[Json] = []
    for number in range(draw.weighted({1: 0.35, 2: 0.45, 3: 0.20})):
        name = f"node-{number}"
        node: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, ZONE: draw.pick("ab")},
            },
        }
        if plan.has("skip") and draw.chance(0.6):
            node["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
        out.append(node)
    return out


def slices(draw: Draw, plan: Plan, names: list[str]) -> list[Json]:
    """Every slice of the cluster, not in the order of their names."""
    out: list[Json] = []
    for driver in DRIVERS if draw.chance(0.85) else (GPU,):
        form = draw.weighted(FORMS)
        local = form == "local"
        for name in names if local else ["shared"]:
            pool = GeneratedPool(driver, name, form, [name] if local else names)
            out += publish(draw, plan, pool)
        if not local and draw.chance(0.3):
            name = draw.pick(names)
            out += publish(draw, plan, GeneratedPool(driver, name, "local", [name]))
    return sorted(out, key=lambda _: draw.number(0, 99))


def publish(draw: Draw, plan: Plan, pool: GeneratedPool) -> list[Json]:
    """The slices of one pool: devices, counters, what is wrong with it, what is left of old."""
    number, contents = 0, []
    for index in range(draw.weighted({1: 0.6, 2: 0.3, 3: 0.1})):
        devices = []
        for _ in range(draw.number(2, 8 if plan.has("crowd") else 5)):
            name = f"{pool.driver[:3]}-{number}"
            devices.append(device(draw, plan, pool.driver, name, number))
            number += 1
        contents.append(selected(draw, pool, index, {"devices": devices}))
    if plan.has("counters") and pool.driver == GPU:
        contents.append(selected(draw, pool, 0, {"sharedCounters": counter_sets(draw)}))
    if plan.has("invalid") and draw.chance(0.5):
        spoil(draw, contents)
    if plan.has("skip") and draw.chance(0.5):
        contents[0]["skipNodeOperations"] = ["*"]
    return numbered(draw, plan, pool, contents)


def selected(draw: Draw, pool: GeneratedPool, index: int, content: Json) -> Json:
    """Say which nodes reach a slice, or its devices."""
    if pool.form == "local":
        return {"nodeName": pool.nodes[0]} | content
    if pool.form == "all" or "sharedCounters" in content:
        return {"allNodes": True} | content
    if pool.form == "selector":
        return {"nodeSelector": node_selector(draw)} | content
    if pool.form == "spread":
        return {"nodeName": pool.nodes[index % len(pool.nodes)]} | content
    devices = content["devices"]
    assert isinstance(devices, list)
    for entry in devices:
        several = node_selector(draw)
        if draw.chance(0.1):
            # The API server promises one term here too and does not look.
            terms = several["nodeSelectorTerms"]
            assert isinstance(terms, list)
            terms += [dict(terms[0])]
        where: tuple[Json, ...] = (
            {"nodeName": draw.pick(pool.nodes)},
            {"allNodes": True},
            {"nodeSelector": several},
        )
        entry.update(draw.pick(where))
    return {"perDeviceNodeSelection": True} | content


def node_selector(draw: Draw) -> Json:
    """One term, as the API server demands."""
    values = draw.pick((["a"], ["b"], ["a", "b"], ["b", "a"]))
    wanted: Json = {"key": ZONE, "operator": "In", "values": values}
    if draw.chance(0.15):
        wanted = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    if draw.chance(0.15):
        field: Json = {"key": "metadata.name", "operator": "In", "values": ["node-0"]}
        return {"nodeSelectorTerms": [{"matchFields": [field], "matchExpressions": [wanted]}]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def spoil(draw: Draw, contents: list[Json]) -> None:
    """Make a pool invalid in one of the ways that the API server cannot see."""
    first = contents[0]["devices"]
    assert isinstance(first, list)
    how = draw.pick(("twice", "set", "counter", "sets"))
    counters = [content for content in contents if "sharedCounters" in content]
    if how == "twice" or not counters:
        first.append(dict(first[0]))
    elif how == "sets":
        contents.append(dict(counters[0]))
    else:
        name = "board-9" if how == "set" else "board-0"
        first[0]["consumesCounters"] = [
            {"counterSet": name, "counters": {"unheard": {"value": "1"}}}
        ]


def numbered(draw: Draw, plan: Plan, pool: GeneratedPool, contents: list[Json]) -> list[Json]:
    """Return the name of the slices and say how many there are of which generation."""
    generation, count = draw.number(1, 3), len(contents)
    if plan.has("incomplete") and draw.chance(0.4):
        count += draw.pick((1, 1, -1)) if count > 1 else 1
    out = []
    for index, content in enumerate(contents):
        name = f"{index:05x}-{pool.driver}-{pool.name}-{draw.number(100, 999)}"
        out.append(named(pool, name, generation, count, content))
    if plan.has("stale") and draw.chance(0.5):
        old = device(draw, plan, pool.driver, f"{pool.driver[:3]}-old", 9)
        old.pop("consumesCounters", None)
        # Usually left over; now and then the new generation is what has only begun.
        number = generation + (1 if draw.chance(0.2) else -1)
        where: Json = {"nodeName": draw.pick(pool.nodes)}
        out.append(
            named(pool, f"old-{pool.driver}-{pool.name}", number, 2, where | {"devices": [old]})
        )
    return out


def named(pool: GeneratedPool, name: str, generation: int, count: int, content: Json) -> Json:
    """The whole object."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": pool.driver,
            "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": count},
        }
        | content,
    }


def rules(draw: Draw, plan: Plan, names: list[str]) -> list[Json]:
    """DeviceTaintRules: of a driver, a pool, a device, all or none."""
    if not plan.has("rules"):
        return []
    out: list[Json] = []
    for number in range(draw.number(1, 2)):
        selector = draw.pick(
            (
                {"driver": GPU, "device": "gpu-0"},
                {"pool": draw.pick(names)},
                {"driver": NIC},
                {"driver": GPU, "pool": "shared", "device": "gpu-1"},
                {} if draw.chance(0.2) else {"device": "nic-0"},
            )
        )
        spec: Json = {"taint": taint(draw)}
        if not draw.chance(0.1):
            spec["deviceSelector"] = selector
        out.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": f"rule-{number}"},
                "spec": spec,
            }
        )
    return out
