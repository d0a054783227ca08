"""Generates classes and the claims of one pod with their requests and constraints."""

from e2e.generator.devices import GPU, NIC, NUMA, ROOT, TAINT_KEYS, Json
from e2e.generator.draw import Draw
from e2e.generator.plan import Plan

SELECTORS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].?model.orValue("") == "large"',
    (
        '"model" in device.attributes[device.driver] '
        '&& device.attributes[device.driver].model == "small"'
    ),
    "device.attributes[device.driver].healthy == true",
    "device.attributes[device.driver].index < 2",
    "device.attributes[device.driver].index % 2 == 1",
    (
        '"memory" in device.capacity[device.driver] '
        '&& device.capacity[device.driver].memory.compareTo(quantity("20Gi")) >= 0'
    ),
    (
        '"release" in device.attributes[device.driver] '
        '&& device.attributes[device.driver].release.isGreaterThan(semver("1.5.0"))'
    ),
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") == "pci0000:00"',
)
# Each stops the whole pod once a device reaches it, some only on certain devices.
BROKEN = (
    'device.attributes["gpu.example.com"].model == "large"',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0',
    "device.attributes[device.driver].nothing",
    "device.driver",
    "device.nothing ==",
)
DERIVED = (
    ("example.com/parity", "device.attributes[device.driver].index % 2"),
    ("example.com/place", 'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("none")'),
    ("example.com/size", 'device.attributes[device.driver].index < 1 ? "one" : "many"'),
    ("example.com/paths", '["a", device.driver]'),
    (ROOT, '"everywhere"'),
    ("example.com/wrong", 'device.attributes["gpu.example.com"].index'),
)


def classes(draw: Draw, plan: Plan) -> list[Json]:
    """The same few classes everywhere, some with configuration."""
    by_driver = 'device.driver == "{}"'
    out = [
        device_class("gpu", [by_driver.format(GPU)]),
        device_class("nic", [by_driver.format(NIC)]),
        device_class("any", []),
        device_class("large", [by_driver.format(GPU), SELECTORS[1]]),
    ]
    if plan.has("config"):
        for entry in draw.some(out, 0.5):
            spec = entry["spec"]
            assert isinstance(spec, dict)
            spec["config"] = [opaque(draw, f"class-{n}") for n in range(draw.number(1, 2))]
    return out


def device_class(name: str, selectors: list[str]) -> Json:
    """A class with these expressions."""
    spec: Json = {"selectors": [{"cel": {"expression": text}} for text in selectors]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def opaque(draw: Draw, setting: str) -> Json:
    """What a driver gets to read."""
    return {"opaque": {"driver": draw.pick((GPU, NIC)), "parameters": {"setting": setting}}}


def claims(draw: Draw, plan: Plan) -> list[Json]:
    """The claims of the pod that wants devices."""
    number = draw.weighted({1: 0.70, 2: 0.24, 3: 0.06})
    return [claim(draw, plan, index, 3 if number == 1 else 2) for index in range(number)]


def claim(draw: Draw, plan: Plan, index: int, most: int) -> Json:
    """One claim."""
    number = draw.weighted({1: 0.5, 2: 0.35, 3: 0.15})
    requests = [request(draw, plan, number) for number in range(min(number, most))]
    devices: Json = {"requests": requests}
    constraints = constrain(draw, plan, requests)
    if constraints:
        devices["constraints"] = constraints
    if plan.has("config"):
        devices["config"] = [
            opaque(draw, f"claim-{number}") | draw.pick(({}, {"requests": names(draw, requests)}))
            for number in range(draw.number(1, 2))
        ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"claim-{index}", "namespace": "default", "uid": f"claim-{index}"},
        "spec": {"devices": devices},
    }


def request(draw: Draw, plan: Plan, number: int) -> Json:
    """A request, exact or with alternatives in order of preference."""
    name = f"r{number}"
    if plan.has("alternatives") and draw.chance(0.55):
        options = [
            {"name": f"s{index}"} | ask(draw, plan, exact=False)
            for index in range(draw.number(2, 3))
        ]
        return {"name": name, "firstAvailable": options}
    return {"name": name, "exactly": ask(draw, plan, exact=True)}


def ask(draw: Draw, plan: Plan, *, exact: bool) -> Json:
    """What a request and an alternative have in common."""
    out: Json = {
        "deviceClassName": draw.weighted({"gpu": 0.5, "nic": 0.2, "any": 0.2, "large": 0.1})
    }
    if plan.has("broken") and draw.chance(0.12):
        out["deviceClassName"] = "gone"
    out |= amount(draw, plan)
    selectors = [{"cel": {"expression": draw.pick(SELECTORS)}}] if draw.chance(0.35) else []
    if plan.has("broken") and draw.chance(0.4):
        selectors.append({"cel": {"expression": draw.pick(BROKEN)}})
    if selectors:
        out["selectors"] = selectors
    if (plan.has("taints") and draw.chance(0.5)) or draw.chance(0.05):
        out["tolerations"] = [tolerate(draw) for _ in range(draw.number(1, 2))]
    if draw.chance(0.45 if plan.has("shares") else 0.06):
        out["capacity"] = {"requests": capacity(draw)}
    if plan.has("derived") and draw.chance(0.7 if plan.gates.get("DRADerivedAttributes") else 0.05):
        chosen = draw.some(DERIVED[:-1], 0.5)
        if plan.has("broken"):
            chosen.append(DERIVED[-1])
        out["derivedAttributes"] = [{"name": n, "expression": e} for n, e in chosen]
    if exact and plan.has("admin") and draw.chance(0.45):
        out["adminAccess"] = draw.chance(0.9)
    return out


def amount(draw: Draw, plan: Plan) -> Json:
    """All, or how many."""
    if plan.has("all") and draw.chance(0.4):
        return {"allocationMode": "All"}
    count = draw.weighted({1: 0.76, 2: 0.16, 3: 0.05, 4: 0.03})
    if plan.has("crowd") and draw.chance(0.5):
        # Around the 32 results that fit into one claim.
        count = draw.pick((8, 12, 16, 20, 24, 32, 33))
    return {"allocationMode": "ExactCount", "count": count}


def tolerate(draw: Draw) -> Json:
    """A toleration as the API server stores it."""
    out: Json = {"operator": draw.pick(("Exists", "Equal"))}
    if draw.chance(0.85):
        out["key"] = draw.pick(TAINT_KEYS)
    if out["operator"] == "Equal" and draw.chance(0.5):
        out["value"] = draw.pick(("x", "y"))
    if draw.chance(0.3):
        out["effect"] = draw.pick(("NoSchedule", "NoExecute"))
    return out


def capacity(draw: Draw) -> Json:
    """Amounts wanted of each device; the last is published under its short name only."""
    out: Json = {}
    if draw.chance(0.8):
        small = ("1Gi", "1500Mi", "3Gi", "10Gi", "512Mi")
        out["memory"] = "41Gi" if draw.chance(0.04) else draw.pick(small)
    if draw.chance(0.25):
        out["cores"] = draw.pick(("1", "300m", "50m", "2"))
    if draw.chance(0.03):
        out[f"{GPU}/memory"] = "1Gi"
    if draw.chance(0.01):
        out["cores"] = draw.pick(("100u", "8E", "-1"))
    return out or {"memory": "2Gi"}


def names(draw: Draw, requests: list[Json]) -> list[str]:
    """Names as constraints and configuration use them: of requests, of alternatives."""
    out: list[str] = []
    for entry in requests:
        options = entry.get("firstAvailable")
        if isinstance(options, list) and draw.chance(0.4):
            out += [f"{entry['name']}/{option['name']}" for option in options if draw.chance(0.6)]
        elif draw.chance(0.75):
            out.append(str(entry["name"]))
    return out or [str(requests[0]["name"])]


def constrain(draw: Draw, plan: Plan, requests: list[Json]) -> list[Json]:
    """Attributes that have to match or to differ."""
    options = [ROOT, NUMA, f"{GPU}/model", f"{GPU}/index", f"{GPU}/release", f"{GPU}/healthy"]
    if plan.has("lists"):
        options += [f"{GPU}/links", f"{GPU}/modes"]
    wanted = [draw.pick(options)] if plan.has("constraints") and draw.chance(0.75) else []
    if wanted and draw.chance(0.25):
        wanted.append(draw.pick(options))
    for entry in requests:
        # The API server wants every derived attribute used.
        parts = entry.get("firstAvailable") or [entry["exactly"]]
        assert isinstance(parts, list)
        wanted += [a["name"] for part in parts for a in part.get("derivedAttributes", ())]
    out: list[Json] = []
    for name in dict.fromkeys(wanted):
        kind = "matchAttribute" if draw.chance(0.65) else "distinctAttribute"
        constraint: Json = {kind: name}
        if draw.chance(0.4):
            constraint["requests"] = names(draw, requests)
        out.append(constraint)
    return out
