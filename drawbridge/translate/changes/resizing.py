"""Reports a translated pod that can no longer be resized in place.

Before 1.37, the API server compares the pod with a copy whose containers have no claims, and
refuses the resize of any container.
"""

from collections.abc import Iterator
from typing import Final

from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.changes.codes import RESIZE_REFUSED
from drawbridge.translate.legacy.pod_view import list_containers

_RESIZES_CLAIMS: Final = "1.37"


def report_resizing(pod: Value, facts: Facts | None) -> Iterator[Finding]:
    """Report the first container with a policy for resizes, unless the version allows them."""
    if facts is not None and facts.cluster.version >= _RESIZES_CLAIMS:
        return
    server = f"this API server ({facts.cluster.version})" if facts else "an API server before 1.37"
    for path, container, _ in list_containers(as_mapping(get_value(pod, ("spec",)))):
        if as_list(container.get("resizePolicy")):
            yield RESIZE_REFUSED.at(
                format_path((*path, "resizePolicy")),
                f"the pod gets claims, and {server} resizes no pod with claims in place",
            )
            return
