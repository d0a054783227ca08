"""One request to the API of the allocator.

Functions import aiohttp when they run, because that import takes longer than a short command.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from cli.input import codes
from cli.input.live_cluster import ClusterReadError
from drawbridge.finding import Finding

if TYPE_CHECKING:
    import ssl

SECONDS: Final = 20.0
Json = Mapping[str, Any]


class AllocatorRequest(NamedTuple):
    """A POST request; messages name the allocator as `place`."""

    place: str
    url: str
    path: str
    body: object
    authorization: str = ""

    async def send(self, server_name: str | None, tls: "ssl.SSLContext | None" = None) -> Json:
        """Return the response; raises ClusterReadError if there is none.

        The certificate must name `server_name`, by default the host of the URL. Without `tls`, a CA
        of this machine must have signed it.
        """
        import aiohttp  # noqa: PLC0415  # loaded on demand

        headers = {"Content-Type": "application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        with self._failures():
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as client,
                client.post(
                    self.url.rstrip("/") + self.path,
                    data=msgspec.json.encode(self.body),
                    headers=headers,
                    ssl=tls or True,
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as response,
            ):
                status, content = response.status, await response.read()
            reply: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        if status != 200:
            path = f"{reply['path']}: " if reply.get("path") else ""
            raise no_answer(self.place, f"{path}{reply.get('message', f'status {status}')}")
        return reply

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415  # loaded on demand

        from drawbridge.cluster.reachability import describe_failure  # noqa: PLC0415  # same

        try:
            yield
        except TimeoutError:
            raise no_answer(self.place, f"no response in {SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise no_answer(self.place, describe_failure(error)) from None
        except msgspec.DecodeError:
            raise no_answer(self.place, "the response is not JSON") from None


def trust(
    place: str,
    file: str | None,
    authorities: str | None = None,
    client_certificate: tuple[str, str | None] | None = None,
) -> "ssl.SSLContext":
    """Trust the CAs of a file or a text, or else of this machine; raises ClusterReadError."""
    import ssl  # noqa: PLC0415  # loaded on demand

    try:
        context = ssl.create_default_context(
            cafile=file or None, cadata=None if file else authorities or None
        )
        if client_certificate is not None:
            context.load_cert_chain(*client_certificate)
    except (OSError, ValueError) as error:
        raise no_answer(place, f"cannot load the CA or the client certificate: {error}") from None
    return context


def no_answer(place: str, text: str) -> ClusterReadError:
    """Return the error of a request without a result."""
    found: Finding = codes.ALLOCATOR_NOT_ASKED.at("--allocator-url", f"{place}: {text}")
    return ClusterReadError(found)
