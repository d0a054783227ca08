"""Records violations, and which driver or plugin has which hardware.

Both cover drivers and device plugins, because a GPU that is allocated twice shows only in both.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """Something that must never be asked of a node. `by` is who noticed it."""

    code: str
    by: str
    node: str
    subject: str
    device: str
    message: str

    def __str__(self) -> str:
        where = f"{self.node}: {self.subject}" + (f": {self.device}" if self.device else "")
        return f"{self.code} ({self.by}) {where}: {self.message}"


class Record:
    """The log of one rig; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._violations: list[Violation] = []
        self._holders: dict[str, dict[str, str]] = {}

    def add(self, violations: Iterable[Violation]) -> None:
        """Record violations; one that is there already (a retry) is not recorded again."""
        with self._lock:
            for violation in violations:
                if violation not in self._violations:
                    self._violations.append(violation)

    def violations(self) -> list[Violation]:
        """Return all of them so far."""
        with self._lock:
            return list(self._violations)

    def take(self) -> list[Violation]:
        """Return all of them and start anew: a scenario answers for its own only."""
        with self._lock:
            taken, self._violations = self._violations, []
            return taken

    def elsewhere(self, world: str) -> dict[str, str]:
        """Say for each physical device held outside `world` who holds it."""
        with self._lock:
            outside = {
                device: {text for key, text in holders.items() if key.partition("|")[0] != world}
                for device, holders in self._holders.items()
            }
        return {device: ", ".join(sorted(texts)) for device, texts in outside.items() if texts}

    def hold(self, world: str, holder: str, devices: Iterable[str]) -> None:
        """Note that `holder` was given devices by `world`, a driver or a plugin."""
        with self._lock:
            for device in devices:
                self._holders.setdefault(device, {})[f"{world}|{holder}"] = f"{world} for {holder}"

    def release(self, world: str, holder: str) -> None:
        """Note that `holder` has given everything back to `world`."""
        with self._lock:
            for holders in self._holders.values():
                holders.pop(f"{world}|{holder}", None)
            self._holders = {device: held for device, held in self._holders.items() if held}
