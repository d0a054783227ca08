"""Collects what the program of a driver does on a real kubelet, for a person to send.

The machine's own /dev, /sys and /proc are visible to the program, so on a machine with the hardware
it publishes that hardware. Each answer is one entry: what happened, and the words of the driver.
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.client import JSON
from e2e.drivers.program import SLICES, DriverProgram, ProgramPlan
from e2e.realnodes.stage import END, RealStage
from e2e.scenarios import forged
from e2e.scenarios.objects import RESOURCE, claim_spec, device_class, request

REPORT = "drivers-report.yaml"
# What the container of the probe prints.
PRINT = f"find /dev -type c -o -type b | sort; env | sort; echo {END}"
SECONDS = 30.0
FIELDS = ("name", "generateName", "ownerReferences")


@dataclass
class Probe:
    """One program on one node, and the answers so far."""

    stage: RealStage
    binary: Path
    arguments: str
    node: str
    answers: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Mapping[str, Any]:
        """Ask everything in order; what fails is an answer too."""
        program = self._start()
        driver = self._published(program)
        body = device_class(driver, f"device.driver == '{driver}'")
        self.stage.cluster_object(f"{RESOURCE}/deviceclasses", body)
        self.stage.pod("plain")
        self.stage.claim("first", claim_spec(request("gpu", driver)))
        self.stage.pod("first", claims={"gpu": "first"})
        self.answers["first pod"] = self._outcome("first")
        self.answers["container has"] = sorted(self._lines("first") - self._lines("plain"))
        self.answers["CDI"] = {path.name: path.read_text() for path in program.cdi()}
        self._plant(driver)
        began = time.monotonic()
        program.restart()
        self.stage.pod("second", claims={"gpu": "first"})
        self.answers["second pod of the claim after a restart"] = self._outcome("second")
        self.answers["seconds after the restart"] = round(time.monotonic() - began, 1)
        for name in ("first", "second"):
            self.stage.delete_pod(name)
        left = [path.name for path in program.cdi()]
        self.answers["CDI specs left when its pods are gone"] = left
        self.answers["end of the log"] = program.log().splitlines()[-200:]
        return self.answers

    def _start(self) -> DriverProgram:
        words = shlex.split(self.arguments.format(node=self.node))
        command: Sequence[str | Path] = (self.binary, *words)
        variables = {"NODE_NAME": self.node, "CDI_ROOT": "/var/run/cdi"}
        # The name of the driver is known when it has published its slices.
        plan = ProgramPlan("user-driver", "", "any", command, variables=variables)
        node = self.stage.fleet.real_node(self.node)
        return self.stage.enter(_AnyDriver(self.stage, node, plan))

    def _published(self, program: DriverProgram) -> str:
        began = time.monotonic()
        program.wait_published()
        time.sleep(1)  # a driver may publish its pools one after the other
        published = program.slices()
        self.answers["program"] = f"{self.binary.name} {self.arguments}"
        self.answers["seconds until its slices"] = round(time.monotonic() - began, 1)
        self.answers["slices"] = [
            {
                "metadata": {key: one["metadata"][key] for key in FIELDS if key in one["metadata"]},
                "spec": one["spec"],
            }
            for one in published
        ]
        return str(published[0]["spec"]["driver"])

    def _plant(self, driver: str) -> None:
        """Allocate by hand what no scheduler allocates, and see who refuses it."""
        taken = self.stage.allocated("first")[0]
        planted = {
            "the device of another claim": forged.device(driver, taken["pool"], taken["device"]),
            "a device that does not exist": forged.device(driver, taken["pool"], "none"),
            "a device of a pool of another node": forged.device(driver, "b", taken["device"]),
        }
        for number, (what, device) in enumerate(planted.items()):
            name = f"planted-{number}"
            forged.play(self.stage, name, forged.Forgery(self.node, (device,)))
            self.answers[what] = self._outcome(name)
            self.stage.client.delete(self.stage.pod_path(name), grace=0)
            self.stage.wait_gone(self.stage.pod_path(name))

    def _outcome(self, pod: str) -> str:
        def outcome() -> str:
            if self.stage.get_pod(pod)["status"].get("phase") == "Running":
                return "runs"
            return next((one for one in self.stage.events(pod) if one.startswith("Failed")), "")

        try:
            return self.stage.wait(f"{pod} has an outcome", outcome, SECONDS)
        except AssertionError:
            return f"neither runs nor is refused: {self.stage.events(pod)}"

    def _lines(self, pod: str) -> set[str]:
        def output() -> set[str]:
            lines = set(self.stage.output(pod).splitlines())
            return lines if END in lines else set()

        return self.stage.wait(f"{pod} printed what it has", output)


class _AnyDriver(DriverProgram):
    """A program whose driver's name is not known before it publishes."""

    def slices(self) -> list[JSON]:
        """List every ResourceSlice of this node: no other driver runs on it."""
        listed = self.stage.client.get(SLICES, fieldSelector=f"spec.nodeName={self.node.name}")
        items: list[JSON] = listed["items"]
        return items


def write(answers: Mapping[str, Any], path: Path) -> None:
    """Write the report."""
    path.write_text(yaml.safe_dump(dict(answers), sort_keys=False, width=120), encoding="utf-8")
