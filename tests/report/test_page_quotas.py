"""What the page says about quotas: what claims have, what is not known, and nothing without any."""

from typing import Any

import pytest

from drawbridge.dra.device_quotas import DeviceQuota, QuotaKey
from drawbridge.dra.quantity import from_json
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.report.page.compose import compose
from drawbridge.report.page.model import Extent, PageObjects, PageState
from drawbridge.report.page.written import write_page

Plain = dict[str, Any]
STATE = PageState("files", "2026-01-01 00:00:00 UTC")
DEVICES, MEMORY = QuotaKey("gpu", "devices"), QuotaKey("gpu", "memory")


def claim(namespace: str, name: str, *devices: str) -> Plain:
    results = [{"request": "r", "driver": "d.io", "pool": "n1", "device": e} for e in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": len(devices) or 1}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": requests}},
        "status": status,
    }


def pool() -> Slice:
    devices = [{"name": e, "capacity": {"memory": {"value": "80Gi"}}} for e in ("x", "y", "z")]
    read = read_slice(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d.io",
                "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
    )
    assert isinstance(read, Slice)
    return read


def quota(total: dict[QuotaKey, str], name: str = "q", *, together: bool = False) -> DeviceQuota:
    """A quota of the namespaces with the label of its name."""
    limits = {key: from_json(amount) for key, amount in total.items()}
    return DeviceQuota(name, lambda _name, labels: name in labels, {}, limits, together)


OBJECTS = PageObjects(
    slices=(pool(),),
    claims=(claim("a", "one", "x", "y"), claim("b", "two", "z"), claim("a", "waits")),
    labels={"a": {"q": ""}, "b": {"q": "", "sum": ""}},
)
QUOTAS = (quota({DEVICES: "4", MEMORY: "160Gi"}), quota({DEVICES: "0"}, "sum", together=True))


def lines(objects: PageObjects) -> list[tuple[str, ...]]:
    quotas = compose(objects, quotas=QUOTAS).quotas
    assert quotas is not None
    return [(e.namespace, e.quota, e.amount, e.used, e.limit, e.left) for e in quotas.lines]


def test_what_is_used_and_left_is_told_by_quota_and_namespace() -> None:
    assert lines(OBJECTS) == [
        ("", "sum", "devices", "1", "0", "0"),
        ("a", "q", "devices", "2", "4", "2"),
        ("a", "q", "memory", "160Gi", "160Gi", "0"),
        ("b", "q", "devices", "1", "4", "3"),
        ("b", "q", "memory", "80Gi", "160Gi", "80Gi"),
    ]


def test_what_namespaces_share_is_not_told_from_the_claims_of_one() -> None:
    only = PageObjects(
        slices=OBJECTS.slices,
        claims=OBJECTS.claims[:1],
        labels=OBJECTS.labels,
        claims_known=Extent.NAMESPACE,
    )
    assert {namespace for namespace, *_ in lines(only)} == {"a"}


def written(objects: PageObjects, quotas: tuple[DeviceQuota, ...] = QUOTAS) -> str:
    return write_page(compose(objects, quotas=quotas), STATE).write()


def test_the_table_says_the_same_in_words() -> None:
    page = written(OBJECTS)
    assert '<li><a href="#quotas">Quotas</a></li>' in page
    table = page[page.index('id="quotas-used"') :]
    assert table.index("all selected together") < table.index("160Gi")
    assert "50 %" in table
    assert "100 %" in table


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        (PageObjects(claims_known=Extent.NOTHING), "what is used is not known"),
        (PageObjects(labels={"a": {"q": ""}}), "No namespace has devices that a quota limits"),
    ],
)
def test_without_claims_the_page_says_so(objects: PageObjects, told: str) -> None:
    assert told in written(objects, QUOTAS[:1])


def test_without_quotas_there_is_no_section() -> None:
    page = written(OBJECTS, ())
    assert "quotas" not in page.lower()


def test_names_in_quotas_are_only_text() -> None:
    hostile = quota({DEVICES: "1"}, "<img src=x>")
    objects = PageObjects(
        slices=(pool(),), claims=(claim("a", "one", "x"),), labels={"a": {"<img src=x>": ""}}
    )
    page = written(objects, (hostile,))
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page
