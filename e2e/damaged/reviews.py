"""Generates damaged AdmissionReviews and checks the responses to them.

The check decodes bodies with Python's own JSON module, so it shares no error with the webhook.
"""

import base64
import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import jsonpatch

JSON = Any
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
VALUES: tuple[JSON, ...] = (
    *(None, True, False, 0, -1, 2**63, 2**64, 10**30, 1.5, 1e308, -0.0),
    *("", "x", "\x00", "\u202e", "\ud800", "é" * 300, "1" * 5000, "nvidia.com/gpu"),
    *([], [[]], [None], {}, {"": ""}, {"a": {}}, ["x"] * 50, {"x": "y"}),
)
ASKS: tuple[dict[str, JSON], ...] = (
    *({"nvidia.com/gpu": amount} for amount in ("1", 1, "8", "0", "-1", "1.5", "1e3", "9" * 40)),
    *({"nvidia.com/gpu": "1", "nvidia.com/gpumem": amount} for amount in ("3000", "x", "-5")),
    *({"nvidia.com/gpu": "1", "nvidia.com/gpucores": amount} for amount in ("30", "101")),
    *({"amd.com/gpu": str(amount)} for amount in (1, 2, 8, 2**62)),
    {"nvidia.com/mig-1g.5gb": "1"},
    {"rdma/hca": "1"},
    {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
    {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1024"},
    {},
)
NOTES = (
    ("team", "a"),
    ("nvidia.com/use-gputype", "H100"),
    ("k8s.v1.cni.cncf.io/networks", '[{"name":"a"}]'),
    ("drawbridge.dev/original", "[]"),
    ("drawbridge.dev/facts", "sha256:0"),
)


def review(chance: random.Random, uid: str, namespace: str) -> dict[str, JSON]:
    """Return a valid review of a pod with a device request."""
    asks = dict(chance.choice(ASKS))
    container = {
        "name": "main",
        "image": "i",
        "resources": {"limits": asks, "requests": dict(asks)},
    }
    metadata: dict[str, JSON] = {"generateName": "web-", "labels": {"app": "web"}}
    metadata["annotations"] = dict([chance.choice(NOTES)])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    pod["spec"] = {
        "containers": [copy.deepcopy(container) for _ in range(chance.choice((1, 1, 3)))]
    }
    asked = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": chance.choice((*["CREATE"] * 8, "UPDATE", "DELETE", "CONNECT", "")),
        "namespace": namespace,
        "userInfo": {"username": "somebody"},
        "object": pod,
        "oldObject": None,
        "dryRun": chance.choice((True, False)),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def damaged(chance: random.Random, uid: str, namespace: str) -> bytes:
    """Return a review whose tree or text is damaged, or that is left valid."""
    tree = review(chance, uid, namespace)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        _spoil(chance, tree)
    text = json.dumps(tree).encode()
    damage = chance.choice((*[_whole] * 6, _cut, _flip, _insert, _wrap, _twice, _encode))
    return damage(chance, text)


def _places(value: JSON) -> Iterator[tuple[JSON, JSON]]:
    """Return every replaceable value as its container and key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def _spoil(chance: random.Random, tree: dict[str, JSON]) -> None:
    places = list(_places(tree))
    if not places:  # the whole of it was taken out before
        return
    holder, key = chance.choice(places)
    what = chance.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[chance.choice(("", "uid", "kind", "x" * 300))] = holder.pop(key)
    elif what == 2:
        holder[key] = _deep(chance.choice((20, 100, 150)))
    else:
        holder[key] = copy.deepcopy(chance.choice(VALUES))


def _deep(levels: int) -> JSON:
    value: JSON = 1
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def _whole(_chance: random.Random, text: bytes) -> bytes:
    return text


def _cut(chance: random.Random, text: bytes) -> bytes:
    return text[: chance.randrange(len(text))]


def _flip(chance: random.Random, text: bytes) -> bytes:
    spoilt = bytearray(text)
    for _ in range(chance.choice((1, 3, 30))):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    return bytes(spoilt)


def _insert(chance: random.Random, text: bytes) -> bytes:
    at = chance.randrange(len(text))
    more = chance.choice(
        (b"\x00", b"\xff\xfe", b"[" * 5000, b'{"a":' * 5000, b"1" * 10000, b"\xc0")
    )
    return text[:at] + more + text[at:]


def _wrap(chance: random.Random, text: bytes) -> bytes:
    before, after = chance.choice(
        ((b"[", b"]"), (b" \n", b"\n "), (b"", b"{}"), (b"\xef\xbb\xbf", b""), (b"", b"\x00"))
    )
    return before + text + after


def _twice(chance: random.Random, text: bytes) -> bytes:
    """Repeat a key."""
    key = chance.choice((b'"uid": "twice", ', b'"object": 3, ', b'"operation": "CREATE", '))
    return text.replace(b'"request": {', b'"request": {' + key, 1)


def _encode(chance: random.Random, text: bytes) -> bytes:
    return text.decode().encode(chance.choice(("utf-16", "utf-32", "utf-7", "cp037")))


def find_error(body: bytes, status: int, answer: bytes) -> str:  # noqa: PLR0911  # one a way to be wrong
    """Describe what is wrong with a response; empty if it is right."""
    if status not in (200, 400):
        return f"status {status}"
    uid = uid_of(body)
    if uid is None or not _is_text(body):
        # Bytes that are no text may stand where nobody has to look; then it is a review all the
        # same, and has to be answered as one.
        if status == 400:
            return ""
        if uid is None:
            return f"status {status} for what is no review"
    try:
        said = json.loads(answer)
        response = said["response"]
    except (ValueError, KeyError, TypeError):
        return f"status {status} and no review in {answer[:200]!r}"
    if said.get("kind") != "AdmissionReview" or said.get("apiVersion") != "admission.k8s.io/v1":
        return f"no AdmissionReview v1 but {said.get('apiVersion')} {said.get('kind')}"
    if response.get("uid") != uid or not isinstance(response.get("allowed"), bool):
        return f"uid {uid!r} answered by {str(response)[:200]}"
    if not response["allowed"] and not response.get("status", {}).get("message"):
        return "denied without a reason"
    if any(len(each) > 256 for each in response.get("warnings") or ()):
        return "a warning is longer than 256 characters"
    return _patch(body, response)


def _patch(body: bytes, response: dict[str, JSON]) -> str:
    if "patch" not in response or not _is_text(body):
        return ""
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    try:
        jsonpatch.apply_patch(json.loads(body)["request"]["object"], operations)
    except (jsonpatch.JsonPatchException, ValueError, KeyError, TypeError) as error:
        return f"the patch does not apply: {error}"
    return ""


def _is_text(body: bytes) -> bool:
    """Return whether a strict JSON decoder accepts the text: valid UTF-8, no lone surrogates."""
    if _HALF.search(body):
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def uid_of(body: bytes) -> str | None:
    """Read the uid as any JSON decoder does; None if there is none."""
    try:
        uid = json.loads(body.decode("utf-8", "replace"))["request"]["uid"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return uid if isinstance(uid, str) and uid else None
