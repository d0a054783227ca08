"""Packs the Helm chart as an OCI artifact, with the images of the release in its values. Pure.

`helm package` writes the time of the packing into the archive; the same commit gives the same bytes
here.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from tools.image import oci
from tools.image.tree import File, compress, pack

_HELM: Final = "application/vnd.cncf.helm"
_DIGEST: Final = re.compile(r'^( *)repository: (\S+)\n((?:.*\n)*?)\1digest: ""$', re.MULTILINE)


def compose(
    files: Mapping[str, bytes], epoch: int, created: str, images: Mapping[str, tuple[str, str]]
) -> oci.Manifest:
    """Return the manifest of a chart. `images` has repository and digest by their default."""
    pinned = {**files, "values.yaml": pin_images(files["values.yaml"].decode(), images).encode()}
    metadata: dict[str, Any] = yaml.safe_load(files["Chart.yaml"])
    tree = {f"{metadata['name']}/{path}": File(data) for path, data in pinned.items()}
    prefix = "org.opencontainers.image"
    return oci.compose_artifact(
        (f"{_HELM}.config.v1+json", json.dumps(metadata, sort_keys=True).encode()),
        [(f"{_HELM}.chart.content.v1.tar+gzip", compress(pack(tree, epoch)))],
        {
            f"{prefix}.title": metadata["name"],
            f"{prefix}.description": metadata["description"],
            f"{prefix}.version": metadata["version"],
            f"{prefix}.created": created,
        },
    )


def pin_images(values: str, images: Mapping[str, tuple[str, str]]) -> str:
    """Return the values with repositories and digests; ValueError if one is not found."""
    pinned_names: set[str] = set()

    def pin(match: re.Match[str]) -> str:
        if match[2] not in images:
            return match[0]
        pinned_names.add(match[2])
        repository, digest = images[match[2]]
        return f"{match[1]}repository: {repository}\n{match[3]}{match[1]}digest: {digest}"

    pinned = _DIGEST.sub(pin, values)
    if pinned_names != images.keys():
        raise ValueError(
            f"values.yaml has no image {', '.join(sorted(images.keys() - pinned_names))}"
        )
    return pinned
