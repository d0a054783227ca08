"""The table of kubeconfigs: what the files of KUBECONFIG say together."""

import json
import re
from pathlib import Path

import pytest

from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.kubeconfig import (
    ClusterEntry,
    SelectedContext,
    UserEntry,
    decode_data,
    merge,
)
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "kubeconfigs.yaml")


@every_row("case", CASES, ids=lambda case: str(case["note"]))
def test_files_are_merged_as_client_go_merges_them(case: YamlValue) -> None:
    contents = [each if isinstance(each, str) else json.dumps(each) for each in case["files"]]
    name = case.get("name", "config")
    files = [(f"/{at}/{name}", each.encode()) for at, each in enumerate(contents)]
    if "error" in case:
        with pytest.raises(AccessError, match=re.escape(case["error"])):
            merge(files).choose(case.get("context"))
        return
    assert differing(merge(files).choose(case.get("context"))) == case["chosen"]


def differing(chosen: SelectedContext) -> dict[str, str]:
    """Return the fields of the parts that are not the default."""
    fields = {} if chosen.namespace == "default" else {"namespace": chosen.namespace}
    for part, default in ((chosen.cluster, ClusterEntry()), (chosen.user, UserEntry())):
        for name in part.__struct_fields__:
            if getattr(part, name) != getattr(default, name):
                fields[name] = getattr(part, name)
    plugin = fields.pop("exec", None)
    return fields if plugin is None else {**fields, "command": chosen.user.exec.command}  # type: ignore[union-attr]


def test_data_may_have_line_breaks() -> None:
    assert decode_data("client-key-data", "aGVs\n  bG8=\n") == b"hello"
    for text in ("%%%=", "aGVsbG8", "ä"):
        with pytest.raises(AccessError, match="client-key-data is not valid base64"):
            decode_data("client-key-data", text)


def test_secrets_are_not_shown() -> None:
    user = {"token": "secret", "auth-provider": {"name": "oidc", "config": {"id-token": "secret"}}}
    files = [("/config", json.dumps({"users": [{"name": "u", "user": user}]}).encode())]
    assert "secret" not in repr(merge(files))
