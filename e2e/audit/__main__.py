"""Compares the rights of the manifests with audit logs of the rig.

    DRAWBRIDGE_E2E_AUDIT=FOLDER python -m e2e full     # keeps the audit logs
    python -m e2e.audit FOLDER                         # exit code 1 if they differ

The logs have the requests of Drawbridge's ServiceAccounts only.
"""

import sys
from pathlib import Path

import yaml

from e2e.audit.rights import Right, compare, read_granted, read_used
from e2e.runner import print_line

NAMESPACE = "drawbridge-system"
HERE = Path(__file__).parent
MANIFESTS = HERE.parents[1] / "manifests"


def read_roles() -> set[Right]:
    """Return the rights that the installation grants to its processes."""
    files = sorted(MANIFESTS.glob("base/roles-*.yaml"))
    files += sorted(MANIFESTS.glob("components/*/*-account.yaml"))
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text("utf-8"))]
    for obj in objects:
        obj["metadata"].setdefault("namespace", NAMESPACE)
    return read_granted(objects)


def read_explained() -> dict[str, str]:
    """Return the rights that no scenario has to use, with the reasons."""
    reasons = yaml.safe_load((HERE / "unseen.yaml").read_text("utf-8"))
    return {right: each["reason"] for each in reasons for right in each["rights"]}


def main(folder: str) -> int:
    """Print the differences; 1 if there are any."""
    used: set[Right] = set()
    denied: set[Right] = set()
    files = sorted(Path(folder).glob("*.log"))
    for file in files:
        with file.open(encoding="utf-8") as lines:
            allowed, refused = read_used(lines, NAMESPACE)
        used |= allowed
        denied |= refused
    granted = read_roles()
    explained = read_explained()
    differences = compare(granted, used, denied, explained)
    print_line(f"{len(files)} logs, {len(granted)} rights granted, {len(explained)} explained")
    for title, rights in differences._asdict().items():
        for right in rights:
            print_line(f"{title}: {right}")
    return 0 if differences.is_equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
