"""Each question of the administrators' page is answered by the command beside it."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.book import DAY, BookEntry, add_entry, open_book
from drawbridge.usage.changes import KEY, ChangeBook, ChangedPods
from drawbridge.usage.stored_books import compose_config_map
from tests.cli.installed_api import CONFIGURATION, config_map, healthy
from tests.cli.planted import PLANTS, draw
from tests.cli.running import Printed, on_api
from tests.cluster.fake.api import FakeApi

PAGE = Path(__file__).parents[2] / "docs" / "administrators.md"
QUESTIONS: dict[str, str] = dict(
    re.findall(r"^\| ([^|]+\?) \| `drawbridge ([^`]+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
)
# What the answer has, by a word of the question.
ANSWERS = {
    "uses": "gpu.nvidia.com/n",
    "wait": "p1: ",
    "hangs": "held by resourceclaim-controller",
    "change": "Deployment/chat",
    "hours": "DEVICE-HOURS",
    "quota": "QuotaBelowUse",
    "taint": "[PodEvicted]",
    "removal": "[PodKeepsDevices]",
    "worst": "CLUSTER",
    "safe": "[ConsumerGone]",
}


QUOTA = "quotas: [{name: q, total: {gpu.nvidia.com: {devices: 1}}}]\n"


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == len(ANSWERS) == 10


def ask(folder: Path, command: str) -> Printed:
    cluster = draw(1, 3)
    PLANTS[3](cluster)  # its pod is gone
    book = add_entry(
        open_book(20_000 * DAY),
        BookEntry(20_000 * DAY + 60, {Account("a", "gpu.nvidia.com", "Job/x"): UsedAmount()}, {}),
    )
    stored: dict[str, Any] = compose_config_map(book, None)
    changes = ChangeBook()
    changes.count(ChangedPods("a", "Deployment/chat", "1 device of class gpu.nvidia.com"), 1)
    stored["data"][KEY] = changes.write(10_000)
    stored["metadata"]["namespace"] = "drawbridge-system"

    def prepare(api: FakeApi) -> None:
        healthy(api)
        # The API server of the test gives pods uids of its own.
        uids = {
            each["metadata"]["uid"]: api.put(each)["metadata"]["uid"]
            for each in cluster.objects
            if each["kind"] == "Pod"
        }
        for value in cluster.objects:
            for user in (
                *value.get("status", {}).get("reservedFor", ()),
                *value["metadata"].get("ownerReferences", ()),
            ):
                user["uid"] = uids.get(user["uid"], user["uid"])
            if value["kind"] != "Pod":
                api.put(value)
        api.put(config_map("drawbridge-config", {"config.yaml": f"{CONFIGURATION}{QUOTA}"}))
        api.put(stored)

    pod = next(each for each in cluster.objects if each["kind"] == "Pod")["metadata"]
    words = shlex.split(
        command.replace("POD", pod["name"])
        .replace("NAMESPACE", pod["namespace"])
        .replace("prod-eu,prod-us", "fake,fake")
        .replace("--from 7d", "")
    )
    return on_api(folder, (), *words, prepare=prepare)


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_a_question_is_answered_by_its_command(tmp_path: Path, question: str) -> None:
    words = set(re.findall(r"\w+", question))
    ((word, answer),) = ((word, answer) for word, answer in ANSWERS.items() if word in words)
    printed = ask(tmp_path, QUESTIONS[question])
    told = f"{printed.out}{printed.err}"
    assert answer in told, (word, told[:3_000])
