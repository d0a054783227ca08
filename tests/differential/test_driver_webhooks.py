"""Drivers and their webhooks answer about configurations as `drawbridge check` does.

Where the answers differ on purpose, `ARGUED` says why. The programs are built by
`python -m e2e.drivers.build`, which takes minutes; without them the test is skipped. With
THOROUGH=1, 2,000 generated configurations are compared.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from drawbridge.finding import Finding
from drawbridge.judge.claims.opaque_configs import check_opaque_configs
from e2e.drivers.build import ASK, folder
from e2e.drivers.configurations import COMPUTE, EXAMPLE, NETWORK, NVIDIA, configuration
from e2e.drivers.webhooks import ALLOWED, ENDS, REFUSED, DriverCheck, DriverWebhook
from tests.judge.contexts import class_context, findings, subject_of
from tests.tables import YamlValue, load_cases
from tests.thorough import drawn

GATES = ("TimeSlicingSettings", "MPSSupport", "PassthroughSupport")
WRITTEN = load_cases(Path(__file__).parents[1] / "judge" / "cases" / "driver_configs.yaml")
CONTEXT = class_context({})
# What only the class of the request or another driver decides, which a webhook does not see.
ELSEWHERE = {"ConfigUnused", "ConfigKindWrong", "ConfigOnMainRequest"}
UNDECODABLE = {"ConfigInvalid", "ConfigVersionUnknown"}


Oracle: TypeAlias = DriverWebhook | DriverCheck


class Argued(NamedTuple):
    """A finding that a webhook does not have, in some releases, and the reason."""

    code: str
    place: str  # a pattern of path and message
    pins: tuple[str, ...]
    reason: str


class Asked(NamedTuple):
    """A release, the gates that are on, and the driver of the configurations."""

    pin: str
    program: str
    gates: tuple[str, ...]
    driver: str


BOTH = ("nvidia-0.4.1", "nvidia-0.5.0")
ARGUED = (
    Argued(
        "ConfigRefused",
        r"sharing\.(mpsConfig|timeSlicingConfig|spacePartitioningConfig): ",
        (*BOTH, "example-0.4.0"),
        "settings of the other strategy: only preparation compares them with the strategy",
    ),
    Argued(
        "ConfigRefused",
        r"PinnedDeviceMemoryLimit: |PerDevicePinnedMemoryLimit\[",
        BOTH,
        "memory limits of MPS: preparation converts them, with the devices of the claim",
    ),
    Argued(
        "ConfigNeedsGate",
        r"parameters\.kind: ",
        ("nvidia-0.5.0",),
        "passthrough: the webhook does not read the gate, the driver publishes no such device",
    ),
)
# What the tables accept because a newer release decodes it.
NEWER = {
    "nvidia-0.4.1": (
        (r"\"VfioDeviceConfig\"|VfioDeviceConfig", "its webhook does not know the kind"),
        (r'unknown field "sharing.mpsConfig.multiUser"', "the field is of release 0.5.0"),
    ),
    "example-0.4.0": ((r"dra-example-driver\.sigs\.k8s\.io", "the group of a later release"),),
}
ASKED = [
    *(Asked(pin, "webhook", gates, NVIDIA) for pin in BOTH for gates in ((), GATES)),
    Asked("nvidia-0.5.0", "webhook", (), COMPUTE),
    Asked("example-0.4.0", "dra-example-webhook", (), EXAMPLE),
    Asked("net-1.4.0", ASK, (), NETWORK),
]
IDS = [f"{one.pin} {one.driver} {'gates' if one.gates else 'defaults'}" for one in ASKED]


@pytest.fixture(scope="module", params=ASKED, ids=IDS)
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Asked, Oracle]]:
    wanted: Asked = request.param
    program = folder(wanted.pin) / wanted.program
    if not program.exists():
        pytest.skip(
            f"NOT COMPARED with the webhook of {wanted.pin}: not built, "
            f"run python -m e2e.drivers.build {wanted.pin}"
        )
    if wanted.program == ASK:
        with DriverCheck(program) as check:
            yield wanted, check
    else:
        with DriverWebhook(program, tmp_path_factory.mktemp(wanted.pin), wanted.gates) as webhook:
            yield wanted, webhook


def found_by_us(driver: str, parameters: YamlValue) -> list[Finding]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": driver}}]
    configs = [{"opaque": {"driver": driver, "parameters": parameters}}]
    reported = findings(check_opaque_configs(subject_of(requests, configs=configs), CONTEXT))
    return [each for each in reported if each.code not in ELSEWHERE]


def expected(asked: Asked, findings: Sequence[Finding]) -> str:
    """Return the answer of a webhook that follows from our findings; empty if none does."""
    if any(each.code == "ConfigOtherDriver" for each in findings):
        return ""  # an error without a look at the fields, which only the other driver decodes
    counted = [each for each in findings if not is_argued(asked.pin, each)]
    codes = {each.code for each in counted}
    if codes & UNDECODABLE:
        return REFUSED
    if "ConfigNeedsGate" in codes and not asked.gates:
        return REFUSED
    if "ConfigEndsDriver" in codes:
        return ENDS
    return REFUSED if codes - {"ConfigNeedsGate"} else ALLOWED


def is_argued(pin: str, finding: Finding) -> bool:
    text = f"{finding.path}: {finding.message}"
    return any(
        finding.code == one.code and pin in one.pins and re.search(one.place, text)
        for one in ARGUED
    )


def difference(asked: Asked, webhook: Oracle, parameters: YamlValue) -> str:
    """Say how the answers differ; empty if they do not, or if the difference is argued."""
    findings = found_by_us(asked.driver, parameters)
    answer = webhook.ask(asked.driver, with_defaults(asked.driver, parameters))
    ours = expected(asked, findings)
    if ours == answer.verdict or (not ours and answer.verdict != ENDS):
        return ""
    newer = NEWER.get(asked.pin, ())
    if answer.verdict == REFUSED and any(re.search(each, answer.message) for each, _ in newer):
        return ""
    said = ", ".join(f"{each.code} {each.path} {each.message}" for each in findings) or "nothing"
    return f"{parameters}: {answer.verdict} ({answer.message}), we say {ours}: {said}"


def with_defaults(driver: str, parameters: YamlValue) -> YamlValue:
    """Fill in what the example driver does before it validates, and its webhook does not."""
    if driver != EXAMPLE or parameters.get("kind") != "GpuConfig":
        return parameters
    sharing = parameters.get("sharing")
    if sharing is None:
        sharing = {"strategy": "TimeSlicing"}
    if not isinstance(sharing, dict):
        return parameters
    defaults = {
        "TimeSlicing": ("timeSlicingConfig", {"interval": "Default"}),
        "SpacePartitioning": ("spacePartitioningConfig", {"partitionCount": 1}),
    }
    strategy = sharing.get("strategy")
    if isinstance(strategy, str) and strategy in defaults:
        name, settings = defaults[strategy]
        if sharing.get(name) is None:
            sharing = {**sharing, name: settings}
    return {**parameters, "sharing": sharing}


def all_differences(asked: tuple[Asked, Oracle], every: Iterator[YamlValue]) -> list[str]:
    driver_webhook, webhook = asked
    return [
        text for parameters in every if (text := difference(driver_webhook, webhook, parameters))
    ]


def test_written_configurations(asked: tuple[Asked, Oracle]) -> None:
    driver = asked[0].driver
    written = (case["parameters"] for case in WRITTEN if case["driver"] == driver)
    assert all_differences(asked, written) == []


def test_generated_configurations(asked: tuple[Asked, Oracle]) -> None:
    driver = asked[0].driver
    generated = (configuration(driver, seed) for seed in range(drawn(100, thorough=2000)))
    assert all_differences(asked, generated) == []


def test_the_generator_draws_each_answer() -> None:
    # With gates on: a generator that only draws mistakes would compare nothing.
    on = Asked("nvidia-0.5.0", "webhook", GATES, NVIDIA)
    answers = [
        expected(on, found_by_us(NVIDIA, configuration(NVIDIA, seed))) for seed in range(400)
    ]
    assert {ALLOWED, REFUSED, ENDS} <= set(answers)
    assert answers.count(ALLOWED) > 40
