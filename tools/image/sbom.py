"""Composes the bill of materials of an image: CycloneDX 1.6 in JSON. Pure.

It lists Debian packages, Python packages and Go modules with the hashes of what was downloaded, so
that a scanner and a person can tell whether a fix is in an image. Equal images have equal
documents: the time is that of the commit, and the serial number depends on the content.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from tools.image.contents import RELEASE
from tools.image.tree import File, Link, Tree

_DEBIAN_LICENCE = re.compile(rb"^License: *(\S.*?)\s*$", re.MULTILINE)
_CLASSIFIER = "License :: "
_SYSTEM = {
    "type": "operating-system",
    "bom-ref": "debian",
    "name": "debian",
    "version": RELEASE,
}
_MAX_NAME = 100  # a longer field is the text of a licence


class Component(NamedTuple):
    """One package of the image."""

    name: str
    version: str
    purl: str
    sha256: str  # of a Go module: of the list of its files; empty if there is none
    licences: tuple[Mapping[str, Any], ...]


def describe_debian(control: Mapping[str, str], sha256: str, files: Tree) -> Component:
    """Return the component of a Debian package, with the licences that its copyright file names.

    The purl names the source package as well, because Debian's security advisories do.
    """
    name, version = control["Package"], control["Version"]
    documents = files.get(f"usr/share/doc/{name}")
    folder = documents.target if isinstance(documents, Link) else name
    path = f"usr/share/doc/{folder}/copyright"
    text = files.get(path)
    stated = _DEBIAN_LICENCE.findall(text.data) if isinstance(text, File) else ()
    # Some files are prose, and are in the image.
    names = sorted({each.decode("utf-8", "replace") for each in stated}) or [f"see /{path}"]
    licences = tuple({"license": {"name": each}} for each in names)
    qualifiers = {"arch": control["Architecture"], "distro": f"debian-{RELEASE}"}
    if "Source" in control:
        qualifiers["upstream"] = control["Source"].partition(" ")[0]
    purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?{urlencode(qualifiers)}"
    return Component(name, version, purl, sha256, licences)


def describe_python(
    name: str, version: str, sha256: str, metadata: Mapping[str, tuple[str, ...]]
) -> Component:
    """Return the component of a Python package, with the licence that its metadata names."""
    purl = f"pkg:pypi/{quote(name)}@{quote(version, safe='')}"
    return Component(name, version, purl, sha256, tuple(_licences(metadata)))


def describe_go(build_info: Mapping[str, Any]) -> list[Component]:
    """Return the standard library and the modules of a program, as `go version -m -json` has them.

    Go's checksum `h1:` is a SHA-256 over the names and hashes of all files of a module.
    """
    go = str(build_info["GoVersion"]).removeprefix("go").partition(" ")[0]
    components = [Component("stdlib", go, f"pkg:golang/stdlib@{go}", "", ())]
    for module in build_info["Deps"]:
        used = module.get("Replace") or module
        name, version = used["Path"], used["Version"]
        digest = base64.b64decode(used["Sum"].removeprefix("h1:")).hex()
        purl = f"pkg:golang/{quote(name)}@{quote(version, safe='')}"
        components.append(Component(name, version, purl, digest, ()))
    return components


class Subject(NamedTuple):
    """The image that a document describes."""

    name: str
    version: str
    commit: str
    time: str
    has_debian: bool = True


def compose(subject: Subject, components: Iterable[Component]) -> bytes:
    """Return the document of an image."""
    ordered = sorted(components, key=lambda each: each.purl)
    version = subject.version
    root = {"type": "container", "bom-ref": "image", "name": subject.name, "version": version}
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": subject.time,
            "component": {
                **root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "drawbridge:commit", "value": subject.commit}],
            },
        },
        "components": [*[_SYSTEM] * subject.has_debian, *map(_encode_component, ordered)],
        "dependencies": [{"ref": "image", "dependsOn": [each.purl for each in ordered]}],
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    serial = uuid.UUID(bytes=digest[:16], version=5)
    document = {**content, "serialNumber": f"urn:uuid:{serial}"}
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def _encode_component(component: Component) -> dict[str, Any]:
    licences = {"licenses": list(component.licences)} if component.licences else {}
    hashes = [{"alg": "SHA-256", "content": component.sha256}] if component.sha256 else []
    return {
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        **({"hashes": hashes} if hashes else {}),
        **licences,
    }


def _licences(metadata: Mapping[str, tuple[str, ...]]) -> Iterable[Mapping[str, Any]]:
    """Return what the metadata says: an SPDX expression, else a name, else the classifiers."""
    for expression in metadata.get("License-Expression", ()):
        return [{"expression": expression}]
    for text in metadata.get("License", ()):
        if text.strip() and len(text) < _MAX_NAME and "\n" not in text.strip():
            return [{"license": {"name": text.strip()}}]
    classifiers = [
        classifier.rpartition(" :: ")[2]
        for classifier in metadata.get("Classifier", ())
        if classifier.startswith(_CLASSIFIER)
    ]
    return [{"license": {"name": each}} for each in classifiers]
