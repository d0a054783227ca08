"""What other webhooks put into a pod: at any place of its lists, under names of their own."""

import copy

from hypothesis import strategies as st

from tests.tables import YamlValue

THEIRS = "theirs-"
_OF_POD = ("containers", "initContainers", "volumes", "resourceClaims", "tolerations")
_OF_CONTAINER = ("env", "claims", "volumeMounts")
# Where, in which container, at which place of the list: as shares of what there is.
INJECTED = st.lists(
    st.tuples(st.sampled_from([*_OF_POD, *_OF_CONTAINER]), st.integers(0, 9), st.integers(0, 9)),
    max_size=6,
)


def injected(pod: YamlValue, asked: YamlValue, steps: list[tuple[str, int, int]]) -> YamlValue:
    """Insert items; not where a list that went with its last item could not be told from none."""
    pod = copy.deepcopy(pod)
    for number, (part, which, at) in enumerate(steps):
        held = pod["spec"]
        if part in _OF_CONTAINER:
            containers = held["containers"]
            if not containers:
                continue
            held = containers[which % len(containers)]
            was = [one for one in asked["spec"]["containers"] if one["name"] == held["name"]]
            if part == "env" and "env" not in held and was and was[0].get("env"):
                continue
            if part == "claims":
                held = held.setdefault("resources", {})
        listed = held.setdefault(part, [])
        key = "key" if part == "tolerations" else "name"
        listed.insert(at % (len(listed) + 1), {key: f"{THEIRS}{number}"})
    return pod


def theirs(value: YamlValue) -> YamlValue:
    """Give what others put in, list by list, in its order."""
    if isinstance(value, dict):
        kept = {key: theirs(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one}
    if isinstance(value, list):
        whole = [one for one in value if _is_theirs(one)]
        return whole + [one for one in map(theirs, (e for e in value if e not in whole)) if one]
    return None


def without_theirs(value: YamlValue) -> YamlValue:
    """Give a pod without what others put in, and without lists and objects that are empty."""
    if isinstance(value, dict):
        kept = {key: without_theirs(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in ([], {})}
    if isinstance(value, list):
        return [without_theirs(one) for one in value if not _is_theirs(one)]
    return value


def _is_theirs(value: YamlValue) -> bool:
    called = value.get("name", value.get("key")) if isinstance(value, dict) else None
    return isinstance(called, str) and called.startswith(THEIRS)
