"""Give up the ownership of fields of a webhook configuration, once they are as they should be.

Server-side apply keeps every field that some manager owns. If an administrator removes a webhook
from the manifests and applies them, an entry with our fields only would remain. The API server
refuses such an entry, because it lacks required fields, and with it the whole upgrade. A field
without an owner is removed with its entry, and stays while the entry stays.
"""

from collections.abc import Mapping
from typing import Any

JSONObject = dict[str, Any]


def compose_release(live: Mapping[str, Any] | None, manager: str) -> JSONObject | None:
    """Return a merge patch after which a manager owns nothing; None if it owns nothing now.

    The patch fails with 409 if the object has changed. It does not change an object
    without other managers, because the API server would fill an empty list again.
    """
    metadata = (live or {}).get("metadata") or {}
    entries = metadata.get("managedFields") or []
    others = [each for each in entries if each.get("manager") != manager]
    if not others or len(others) == len(entries):
        return None
    version = metadata.get("resourceVersion", "")
    return {"metadata": {"resourceVersion": version, "managedFields": others}}
