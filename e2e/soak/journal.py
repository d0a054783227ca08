"""What happens during a soak: steps, failures, and loops beside the main thread."""

import http.client
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable

from e2e.controlplane.client import ApiError
from e2e.controlplane.processes import StartError

Say = Callable[[str], None]
# The API server is away again and again, or starts slowly on a busy machine.
AWAY = (ApiError, OSError, StartError, http.client.HTTPException)
STOP_SECONDS = 90.0


class Journal:
    """The steps and failures of one soak; safe to use from any thread."""

    def __init__(self, say: Say, seed: int) -> None:
        self.say = say
        self.seed = seed
        self.phase = ""
        self.step = ""  # of the last fault
        self.failures: list[str] = []
        self.refused: Counter[str] = Counter()
        self._started = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Return how long the soak has run."""
        return time.monotonic() - self._started

    def note(self, text: str) -> None:
        """Print a line with its time."""
        with self._lock:
            self.say(f"{self.seconds:8.1f} s  {self.phase}: {text}")

    def fail(self, text: str) -> None:
        """Record a failure once, and print what repeats the run."""
        if text not in self.failures:
            self.failures.append(text)
            after = f", after {self.step}" if self.step else ""
            self.note(f"FAILURE (seed {self.seed}{after}): {text}")

    def count(self, what: str, problem: Exception) -> None:
        """Count a request that failed."""
        code = problem.code if isinstance(problem, ApiError) else type(problem).__name__
        with self._lock:
            self.refused[f"{what} {code}"] += 1


class Loops:
    """Work that is repeated beside the main thread until all of it is stopped."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, turn: Callable[[], object], pause: float) -> None:
        """Repeat `turn` with a pause between turns."""
        thread = threading.Thread(target=self._run, args=(name, turn, pause), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, name: str, turn: Callable[[], object], pause: float) -> None:
        while not self.ended.wait(pause):
            try:
                turn()
            except AWAY as problem:
                self.journal.count(name, problem)
            except Exception:  # noqa: BLE001  # whatever the rig did wrong, the run must not pass
                self.journal.fail(f"{name} ended: {traceback.format_exc()}")
                return

    def stop(self) -> None:
        """End all of it; returns when the turns under way are finished."""
        self.ended.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)
