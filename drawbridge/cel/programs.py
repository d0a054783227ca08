"""An LRU cache of the compiled expressions of an environment."""

import threading

from drawbridge.bounded_cache import BoundedCache
from drawbridge.cel.environment import Environment, Program
from drawbridge.cel.errors import CompileError


class Programs:
    """An LRU cache of programs and compile errors; thread-safe."""

    def __init__(self, environment: Environment, size: int = 1024) -> None:
        self.environment = environment
        self._known: BoundedCache[str, Program | CompileError] = BoundedCache(size)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def compile(self, source: str) -> Program:
        """Return the program of an expression; raises CompileError if it is invalid."""
        with self._lock:
            found = self._known.get(source)
        if found is None:
            # Outside the lock: two threads may compile the same expression, but none waits.
            try:
                found = self.environment.compile(source)
            except CompileError as error:
                found = error
            with self._lock:
                self._known.put(source, found)
        if isinstance(found, CompileError):
            raise CompileError(found.problems)
        return found
