"""An LRU cache of the compiled expressions of an environment."""

import threading
from typing import Final

from drawbridge.bounded_cache import BoundedCache
from drawbridge.brief import whole
from drawbridge.cel.environment import Environment, Program
from drawbridge.cel.errors import CompileError

# Of the texts of all programs that are kept. A program takes about 120 bytes for each byte.
MOST_SOURCE: Final = 128 << 10


class Programs:
    """An LRU cache of programs and compile errors; thread-safe."""

    def __init__(self, environment: Environment, size: int = 1024) -> None:
        self.environment = environment
        self._compiled: BoundedCache[str, Program | CompileError] = BoundedCache(size, MOST_SOURCE)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._compiled)

    def compile(self, source: str) -> Program:
        """Return the program of an expression; raises CompileError if it is invalid."""
        compiled = self._find(source)
        if compiled is None:
            # Outside the lock: two threads may compile the same expression, but none waits.
            try:
                compiled = self.environment.compile(source)
            except CompileError as error:
                compiled = error
            self._keep(source, compiled)
        if isinstance(compiled, CompileError):
            raise CompileError(compiled.problems)
        return compiled

    @whole
    def _find(self, source: str) -> Program | CompileError | None:
        with self._lock:
            return self._compiled.get(source)

    @whole
    def _keep(self, source: str, compiled: Program | CompileError) -> None:
        with self._lock:
            self._compiled.put(source, compiled, cost=len(source))
