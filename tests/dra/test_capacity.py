"""Tests of consumed capacity against a table of scheduler results."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.dra import codes
from drawbridge.dra.capacity import (
    Amounts,
    CapacityError,
    Misfit,
    MisfitReason,
    check_request_policy,
    consumed_amounts,
    find_shortfall,
)
from drawbridge.dra.device import Capacity, RequestPolicy, ValidRange
from drawbridge.dra.quantity import Quantity, from_json, parse
from tests.tables import read_yaml
from tests.thorough import drawn

FOLDER = Path(__file__).parent / "cases"


def table(name: str) -> pytest.MarkDecorator:
    groups = read_yaml((FOLDER / name).read_text(encoding="utf-8"))
    cases = [pytest.param(case, id=case["name"]) for group in groups.values() for case in group]
    return pytest.mark.parametrize("case", cases)


def hook(_: type, value: object) -> Quantity:
    return from_json(value)


def published(value: object) -> dict[str, Capacity]:
    return msgspec.convert(value, dict[str, Capacity], dec_hook=hook)


def quantities(value: dict[str, object]) -> Amounts:
    return {name: from_json(amount) for name, amount in value.items()}


def texts(taken: Amounts) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in taken.items()}


def answer(case: dict[str, Any]) -> Amounts | Misfit:
    capacity = published(case["capacity"])
    asked = quantities(case["asked"])
    taken = consumed_amounts(capacity, asked, fractional=case.get("fractional", True))
    if isinstance(taken, Misfit):
        return taken
    used = [quantities(case.get(key, {})) for key in ("consumed", "taken")]
    return find_shortfall(capacity, taken, *used) or taken


@table("capacity.yaml")
def test_a_request_consumes_skips_or_aborts_as_in_the_scheduler(case: dict[str, Any]) -> None:
    if "aborts" in case:
        with pytest.raises(CapacityError) as aborted:
            answer(case)
        assert aborted.value.name == case["aborts"]
        return
    result = answer(case)
    if "skips" in case:
        assert isinstance(result, Misfit)
        assert (result.name, result.why) == (case["skips"]["name"], case["skips"]["why"])
    else:
        assert not isinstance(result, Misfit)
        assert texts(result) == {name: str(amount) for name, amount in case["takes"].items()}


@table("capacity_policies.yaml")
def test_policies_are_validated_as_by_the_api_server(case: dict[str, Any]) -> None:
    capacity = msgspec.convert(case["capacity"], Capacity, dec_hook=hook)
    findings = list(
        check_request_policy(
            "mem", capacity, shared=case.get("shared", True), path="here", object="S/x"
        )
    )
    expected = [(codes.REQUEST_POLICY_REFUSED.name, f"here.{p}") for p in case.get("refused", [])]
    expected += [(codes.CAPACITY_UNUSABLE.name, f"here.{p}") for p in case.get("unusable", [])]
    assert [(each.code, each.path) for each in findings] == expected
    assert all(each.object == "S/x" and "capacity mem: " in each.message for each in findings)


def test_the_available_amount_has_the_format_of_the_value() -> None:
    capacity = published({"mem": {"value": "80Gi"}})
    misfit = find_shortfall(capacity, {"mem": parse("24Gi")}, {"mem": parse("60Gi")})
    assert misfit == Misfit("mem", MisfitReason.FULL, parse("24Gi"), parse("20Gi"))
    assert misfit is not None
    assert str(misfit.available) == "20Gi"


def test_without_used_amounts_only_the_capacity_counts() -> None:
    capacity = published({"mem": {"value": "80Gi"}})
    taken = {"mem": parse("80Gi")}
    assert find_shortfall(capacity, taken) is None
    assert find_shortfall(capacity, taken, {"mem": parse("1n")}) is not None


def test_an_error_names_the_capacity_and_the_request() -> None:
    policy = {"default": 1, "validRange": {"min": 1, "step": 1}}
    capacity = published({"cpu": {"value": 8, "requestPolicy": policy}})
    with pytest.raises(CapacityError, match="capacity cpu: the request 1500001u cannot be rounded"):
        consumed_amounts(capacity, {"cpu": parse("1500001u")}, fractional=True)


@settings(max_examples=drawn(200, thorough=1_000))
@given(
    asked=st.integers(0, 40),
    low=st.integers(0, 40),
    step=st.integers(1, 40),
    fractional=st.booleans(),
)
def test_rounding_returns_the_smallest_sufficient_step(
    *, asked: int, low: int, step: int, fractional: bool
) -> None:
    valid = ValidRange(min=Quantity.of(low), step=Quantity.of(step))
    capacity = {"mem": Capacity(Quantity.of(1000), RequestPolicy(Quantity.of(low), (), valid))}
    taken = consumed_amounts(capacity, {"mem": Quantity.of(asked)}, fractional=fractional)
    assert not isinstance(taken, Misfit)
    enough = next(n for n in range(low, 1000, step) if n >= asked)
    assert taken["mem"] == Quantity.of(enough)
    again = consumed_amounts(capacity, taken, fractional=fractional)
    assert again == taken
