"""`drawbridge usage`, on files and on an API server."""

import json
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from drawbridge.usage.accounts import OTHER, Account, UsedAmount
from drawbridge.usage.book import DAY, Book, BookEntry, add_entry, open_book
from drawbridge.usage.changes import KEY, ChangeBook, ChangedPods
from drawbridge.usage.stored_books import compose_config_map, names_of_day
from tests.cli.running import Printed, command, on_api
from tests.cluster.fake.api import FakeApi

FIRST = 20_000 * DAY  # 2024-10-04
GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"
OWN = "drawbridge-system"
NOT_KNOWN = "Claims that came and went in them are not known."


def amount(hours: Fraction | int, unknown: int = 0) -> UsedAmount:
    return UsedAmount(
        Fraction(hours) * 3600, Fraction(unknown) * 3600, Fraction(hours) * 3600 * 80 * 2**30
    )


def books() -> list[Book]:
    first = add_entry(
        open_book(FIRST + 3600),
        BookEntry(
            FIRST + DAY,
            {
                Account("research", GPU, "Job/train"): amount(16),
                Account("research", GPU, OTHER): amount(1),
                Account("serving", MIG, "Deployment/chat"): amount(Fraction(1, 3), unknown=2),
            },
            {},
            ((FIRST + 7200, FIRST + 10_800),),
        ),
    )
    second = add_entry(
        open_book(FIRST + DAY),
        BookEntry(
            FIRST + DAY + 60, {Account("research", GPU, "Job/train"): amount(Fraction(1, 60))}, {}
        ),
    )
    return [first, second]


def objects() -> list[dict[str, Any]]:
    config_maps = [compose_config_map(book, None) for book in books()]
    for each in config_maps:
        each["metadata"]["namespace"] = OWN
    return config_maps


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "books.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))
    return str(path)


def usage(file: str, *words: str) -> Printed:
    return command("usage", "--cluster", file, *words)


def test_the_table_has_hours_and_says_what_is_not_known(file: str) -> None:
    printed = usage(file)
    assert printed.code == 0
    assert (
        printed.out.splitlines()
        == [
            "from 2024-10-04T01:00:00Z to 2024-10-05T00:01:00Z",
            "devices of claims, and units of device plugins by their resource name",
            "NAMESPACE  CLASS           DEVICE-HOURS  SHARE   MEMORY GiB-HOURS  UNKNOWN",
            "research   gpu.nvidia.com  17.02         98.1 %  1,361.3           -",
            "serving    mig.nvidia.com  0.33          1.9 %   26.7              2.00",
            "total                      17.35         100.0 %  1,388.0           2.00",
            "not observed: 1 interval of 3,600 s together. " + NOT_KNOWN,
            "  2024-10-04T02:00:00Z to 2024-10-04T03:00:00Z",
        ]
        or printed.out
    )


BY = [
    ("class", [("gpu.nvidia.com", "61260"), ("mig.nvidia.com", "1200")]),
    ("namespace", [("research", "61260"), ("serving", "1200")]),
    ("day", [("2024-10-04", "62400"), ("2024-10-05", "60")]),
]


@pytest.mark.parametrize(("column", "expected"), BY)
def test_usage_is_summed_up_exactly_by_each_column(
    file: str, column: str, expected: list[tuple[str, str]]
) -> None:
    told = json.loads(usage(file, "--by", column, "-o", "json").out)
    assert [(each[column], each["deviceSeconds"]) for each in told["usage"]] == expected
    assert told["total"]["deviceSeconds"] == "62460"
    assert told["unobserved"] == [["2024-10-04T02:00:00Z", "2024-10-04T03:00:00Z"]]


def test_csv_has_owners_with_their_namespace(file: str) -> None:
    printed = usage(file, "--by", "owner", "-o", "csv")
    assert printed.out.splitlines() == [
        "namespace,owner,device_seconds,unknown_device_seconds,memory_byte_seconds",
        f"research,Job/train,57660.000000,0.000000,{57660 * 80 * 2**30}.000000",
        f"research,(other),3600.000000,0.000000,{3600 * 80 * 2**30}.000000",
        f"serving,Deployment/chat,1200.000000,7200.000000,{1200 * 80 * 2**30}.000000",
    ]


@pytest.mark.parametrize(("since", "seconds"), [("2024-10-05", "60"), ("2024-10-04", "62460")])
def test_the_first_day_is_a_whole_one(file: str, since: str, seconds: str) -> None:
    told = json.loads(usage(file, "--from", since, "-o", "json").out)
    assert told["total"]["deviceSeconds"] == seconds


def test_one_namespace_can_be_selected(file: str) -> None:
    told = json.loads(command("usage", "serving", "--cluster", file, "-o", "json").out)
    assert [each["namespace"] for each in told["usage"]] == ["serving"]


@pytest.mark.parametrize("words", [("--by", "pod"), ("--from", "yesterday")])
def test_wrong_words_are_refused(file: str, words: tuple[str, str]) -> None:
    printed = usage(file, *words)
    assert printed.code == 2
    assert words[1] in printed.err


def test_a_date_that_does_not_exist_is_refused_with_the_form_of_dates(file: str) -> None:
    printed = usage(file, "--from", "2026-13-01")
    assert printed.code == 2
    assert "2026-13-01: must be a date such as 2026-11-01" in printed.err


def test_a_file_that_cannot_be_read_is_told(file: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("hello world")
    printed = command("usage", "--cluster", file, str(other))
    assert "other.yaml:1: error: Document#1: " in printed.err


def test_a_cluster_without_books_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: drawbridge-facts}\n")
    printed = usage(str(empty))
    assert printed.code == 2
    assert "[UsageMissing]" in printed.err


@pytest.mark.parametrize("words", [(), ("--changes",), ("-o", "csv")])
def test_a_time_after_the_last_book_is_not_reported_as_unused(
    file: str, words: tuple[str, ...]
) -> None:
    printed = usage(file, "--from", "2024-10-06", *words)
    assert (printed.code, printed.out) == (2, "")
    assert "no book covers the time since 2024-10-06; the last one ends at" in printed.err


def test_a_damaged_book_is_reported_and_the_others_are_summed_up(tmp_path: Path) -> None:
    first, second = objects()
    first["data"]["book.json"] = "{"
    path = tmp_path / "books.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [first, second]}))
    printed = usage(str(path), "-o", "json")
    assert json.loads(printed.out)["total"]["deviceSeconds"] == "60"
    assert "[UsageBookUnreadable]" in printed.err


HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "drawbridge"},
    "webhooks": [{"clientConfig": {"service": {"namespace": OWN}}}],
}


def test_a_live_cluster_is_read_by_the_names_that_the_role_allows(tmp_path: Path) -> None:
    def prepare(api: FakeApi) -> None:
        api.fail(403, method="GET", part="configmaps?", times=9)

    first, second = objects()
    first["metadata"]["name"] = names_of_day(FIRST // DAY)[1]  # of an earlier version
    printed = on_api(tmp_path, [HOOK, first, second], "usage", "-o", "json", prepare=prepare)
    assert json.loads(printed.out)["total"]["deviceSeconds"] == "62460", printed.err


@pytest.mark.parametrize(
    ("forbidden", "read", "code", "told"),
    [
        (range(32, 94), "62400", 0, " (and 61 more ConfigMaps) [PartUnreadable]"),
        (range(93, 94), "62460", 0, "forbidden [PartUnreadable]"),
        (range(1, 94), None, 2, " (and 92 more ConfigMaps)"),
    ],
)
def test_books_that_the_role_does_not_allow_are_told_and_the_others_are_summed_up(
    tmp_path: Path, forbidden: range, read: str | None, code: int, told: str
) -> None:
    """The role of an earlier version names fewer ConfigMaps."""
    first, second = objects()
    first["metadata"]["name"] = names_of_day(FIRST // DAY)[1]

    def prepare(api: FakeApi) -> None:
        for number in forbidden:
            name = f"drawbridge-usage-{number:02}"
            api.fail(403, method="GET", part=name, times=9, message=f"{name} is forbidden")

    printed = on_api(tmp_path, [HOOK, first, second], "usage", "-o", "json", prepare=prepare)
    total = json.loads(printed.out).get("total", {})
    assert (printed.code, total.get("deviceSeconds")) == (code, read)
    data = json.loads(printed.out)
    text = "".join(f"{each['message']} [{each['code']}]" for each in data["findings"])
    assert (text.count("PartUnreadable"), text.count("UsageMissing")) == (1, read is None)
    assert told in text


def test_changes_of_the_books_are_listed_also_of_pods_that_are_gone(tmp_path: Path) -> None:
    counted = ChangeBook()
    for number in range(3):
        counted.count(
            ChangedPods("research", "Job/train", "1 device of class gpu.nvidia.com"), number
        )
    counted.count(ChangedPods("other", "Job/a", "2 devices of class gpu.nvidia.com"), 9)
    config_map = objects()[0]
    config_map["data"][KEY] = counted.write(10_000)
    path = tmp_path / "books.json"
    path.write_text(json.dumps(config_map))
    lines = command("usage", "--changes", "--cluster", str(path)).out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["NAMESPACE", "OWNER", "PODS"],
        ["research", "Job/train", "3"],
        ["other", "Job/a", "1"],
    ]
    assert lines[1].endswith("1 device of class gpu.nvidia.com")
    printed = command("usage", "research", "--changes", "--cluster", str(path), "-o", "json").out
    assert [each["pods"] for each in json.loads(printed)["changes"]] == [3]
    assert command("usage", "--changes", "--cluster", str(path), "-o", "csv").out.splitlines() == [
        "namespace,owner,claims,pods",
        "research,Job/train,1 device of class gpu.nvidia.com,3",
        "other,Job/a,2 devices of class gpu.nvidia.com,1",
    ]


def months(*days: int) -> list[dict[str, Any]]:
    """Return the books of whole days, of which each has 24 device-hours."""
    account = Account("research", GPU, "Job/train")
    written = []
    for day in days:
        end = FIRST + (day + 1) * DAY
        book = add_entry(open_book(end - DAY), BookEntry(end, {account: amount(24)}, {}))
        written.append(compose_config_map(book, None))
    return written


@pytest.mark.parametrize(
    ("days", "words", "counted", "missing"),
    [
        (range(62), (), 31, ""),
        (range(62), ("--from", "2024-10-04"), 62, ""),
        (range(62), ("--from", "2024-10-02"), 62, "2024-10-02T00:00:00Z to 2024-10-04T00:00:00Z"),
        ((*range(9), *range(10, 20)), (), 19, "2024-10-13T00:00:00Z to 2024-10-14T00:00:00Z"),
        ((0, 40), (), 1, ""),  # the first book is of an earlier month
    ],
)
def test_days_without_a_book_are_named(
    tmp_path: Path, days: Iterable[int], words: tuple[str, ...], counted: int, missing: str
) -> None:
    path = tmp_path / "books.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": months(*days)}))
    printed = usage(str(path), *words, "-o", "json")
    assert json.loads(printed.out)["total"]["deviceHours"] == 24 * counted
    told = re.findall(r"no book covers (.*) \[UsageIncomplete\]", printed.err)
    assert told == ([missing] if missing else [])


@pytest.mark.parametrize("swap", [False, True])
def test_of_two_books_of_a_day_the_more_complete_one_counts(tmp_path: Path, *, swap: bool) -> None:
    first, second = objects()
    earlier = compose_config_map(open_book(FIRST + 3600), None)
    # An earlier version wrote it after a rollback, and could not know what claims held.
    used = {Account("research", GPU, "Job/train"): amount(20)}
    unobserved = BookEntry(FIRST + DAY, used, {}, ((FIRST + 3600, FIRST + DAY),))
    reconstructed = compose_config_map(add_entry(open_book(FIRST + 3600), unobserved), None)
    items = [first, second, earlier, reconstructed]
    items = items[::-1] if swap else items
    path = tmp_path / "books.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert json.loads(usage(str(path), "-o", "json").out)["total"]["deviceSeconds"] == "62460"
