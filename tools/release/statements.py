"""Composes the statements about a release: in-toto statements, and their predicates. Pure.

A signature is a statement without a predicate, as cosign writes it since version 3.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tools.commit import Commit
from tools.image.sbom import Component

SIGNATURE: Final = "https://sigstore.dev/cosign/sign/v1"
PROVENANCE: Final = "https://slsa.dev/provenance/v1"
BILL: Final = "https://cyclonedx.org/bom"
# tools/release/README.md describes it.
BUILD_TYPE: Final = "https://drawbridge.dev/release/v1"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"


class Subject(NamedTuple):
    """What a statement is about: a manifest, an index or a file, by its SHA-256 in hex."""

    name: str
    sha256: str


class Builder(NamedTuple):
    """Who builds, from where: identifiers that the provenance repeats."""

    identifier: str
    invocation: str = ""
    source: str = ""  # the address of the repository


def state(kind: str, subjects: Sequence[Subject], predicate: Mapping[str, Any]) -> bytes:
    """Return a statement, which is signed as these bytes."""
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": each.name, "digest": {"sha256": each.sha256}} for each in subjects],
        "predicateType": kind,
        "predicate": predicate,
    }
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def describe_build(
    commit: Commit,
    builder: Builder,
    parameters: Mapping[str, Any],
    tools: Mapping[str, str],
    used: Iterable[Component],
) -> dict[str, Any]:
    """Return the provenance of one artifact: the commit, what was downloaded, and with what."""
    ordered = sorted(set(map(_describe_dependency, used)))
    details: dict[str, Any] = {"builder": {"id": builder.identifier}}
    if builder.invocation:
        details["metadata"] = {"invocationId": builder.invocation}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": dict(parameters),
            "internalParameters": dict(tools),
            "resolvedDependencies": [
                _describe_source(commit, builder.source),
                *(
                    {"uri": uri, **({"digest": {kind: digest}} if digest else {})}
                    for uri, kind, digest in ordered
                ),
            ],
        },
        "runDetails": details,
    }


def _describe_source(commit: Commit, source: str) -> dict[str, Any]:
    uri = {"uri": f"git+{source}"} if source else {}
    name, _, changed = commit.name.partition("-")
    if changed:
        # The tree is that of no commit.
        return {"name": f"source, changed since commit {name}", **uri}
    return {"name": "source", **uri, "digest": {"gitCommit": name}}


def _describe_dependency(used: Component) -> tuple[str, str, str]:
    """Return the URI, and the digest with its name in in-toto."""
    is_module = used.purl.startswith("pkg:golang/")
    return used.purl, "goModuleH1" if is_module else "sha256", used.sha256
