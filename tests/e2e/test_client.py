"""The client of the rigs."""

from typing import Any

import pytest

from e2e.controlplane.client import JSON, ApiError, Client


class Refusing(Client):
    """Answers every request with an error."""

    def __init__(self, code: int) -> None:
        self._code = code

    def call(self, method: str, path: str, *_: Any, **__: Any) -> JSON:  # noqa: ANN401  # as the client
        """Refuse the request."""
        raise ApiError(self._code, {"message": f"{method} {path}"})


def test_only_what_is_gone_already_needs_no_deletion() -> None:
    Refusing(404).delete_if_there("/api/v1/nodes/a")
    with pytest.raises(ApiError, match="403: DELETE /api/v1/nodes/a"):
        Refusing(403).delete_if_there("/api/v1/nodes/a")
