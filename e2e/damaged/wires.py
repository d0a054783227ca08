"""Generates HTTP requests that are damaged in transport, with the accepted statuses."""

import random
from typing import NamedTuple

HOST = "drawbridge-webhook.drawbridge-system.svc"
PATH = "/admit/pods?timeout=5s"
LIMIT = 8 << 20


class DamagedRequest(NamedTuple):
    """The pieces to send, and for each expected response the set of accepted statuses."""

    name: str
    pieces: tuple[bytes, ...]
    right: tuple[frozenset[int], ...]  # empty: whatever comes, if it is HTTP at all
    body: bytes = b""  # of the one review in it, where the answer is to be judged
    tls: bool = True
    hasty: bool = False  # goes away without waiting for an answer


def request(body: bytes, path: str = PATH, method: str = "POST", **headers: str) -> bytes:
    """Format a request as the API server does; an empty header is left out."""
    said = {
        "Host": HOST,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "surrogatepass") + body


def one_of(*statuses: int) -> tuple[frozenset[int], ...]:
    """Expect one response with one of these statuses."""
    return (frozenset(statuses),)


def chunked(body: bytes, size: int) -> bytes:
    """Encode a body in chunks."""
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


def case(chance: random.Random, body: bytes) -> DamagedRequest:
    """Return a request that carries `body` in one of the ways."""
    return chance.choices(MAKERS, WEIGHTS)[0](chance, body)


def _plain(_chance: random.Random, body: bytes) -> DamagedRequest:
    return DamagedRequest("review", (request(body),), one_of(200, 400), body)


def _workload(_chance: random.Random, body: bytes) -> DamagedRequest:
    path = "/admit/workloads?timeout=5s"
    return DamagedRequest("workload", (request(body, path),), one_of(200, 400), body)


def _in_chunks(chance: random.Random, body: bytes) -> DamagedRequest:
    head = request(b"", Transfer_Encoding="chunked", Content_Length="")
    sent = head + chunked(body, chance.choice((7, 100, 4096)))
    return DamagedRequest("chunked", (sent,), one_of(200, 400), body)


def _in_pieces(chance: random.Random, body: bytes) -> DamagedRequest:
    sent = request(body)
    size = max(1, len(sent) // chance.choice((2, 5, 40)))
    pieces = tuple(sent[i : i + size] for i in range(0, len(sent), size))
    return DamagedRequest("in pieces", pieces, one_of(200, 400), body)


def _slow(chance: random.Random, body: bytes) -> DamagedRequest:
    sent = request(body, "/admit/pods?timeout=300ms", Content_Length=str(len(body) + 1))
    return DamagedRequest(
        "slow", (sent[: len(sent) - chance.randrange(len(body) or 1)],), one_of(408)
    )


def _pipelined(chance: random.Random, body: bytes) -> DamagedRequest:
    count = chance.choice((2, 5, 20, 60))
    right = (frozenset((200, 400)),) * count
    return DamagedRequest("pipelined", (request(body) * count,), right)


def _timeouts(chance: random.Random, body: bytes) -> DamagedRequest:
    said = chance.choice(("", "5", "-1s", "1e9s", "%00", "5s&timeout=1s", "9" * 400 + "s", "0.0s"))
    sent = request(body, f"/admit/pods?timeout={said}")
    return DamagedRequest("silly timeout", (sent,), one_of(200, 400), body)


def _elsewhere(chance: random.Random, body: bytes) -> DamagedRequest:
    path = chance.choice(("/", "/admit", "/admit/pods/", "/admit/pods/../pods", "//admit/pods"))
    return DamagedRequest("elsewhere", (request(body, path),), one_of(404, 400))


def _method(chance: random.Random, body: bytes) -> DamagedRequest:
    method = chance.choice(("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "BREW"))
    sent = request(b"" if method in ("GET", "HEAD") else body, method=method)
    right = () if method == "HEAD" else one_of(405, 400)  # the answer to HEAD has no body
    return DamagedRequest("method", (sent,), right, hasty=method == "HEAD")


def _content(chance: random.Random, body: bytes) -> DamagedRequest:
    kind = chance.choice(("text/plain", "", "application/yaml", ";", "application/jsonx", "é"))
    return DamagedRequest("content type", (request(body, Content_Type=kind),), one_of(415, 400))


def _compressed(chance: random.Random, body: bytes) -> DamagedRequest:
    coding = chance.choice(("gzip", "deflate", "br", "zstd", "x"))
    return DamagedRequest("compressed", (request(body, Content_Encoding=coding),), one_of(415))


def _large(chance: random.Random, body: bytes) -> DamagedRequest:
    if chance.randrange(2):
        sent = request(body, Content_Length=str(chance.choice((LIMIT + 1, 10**12, 10**18))))
        return DamagedRequest("said to be large", (sent,), one_of(413, 400))
    head = request(b"", Transfer_Encoding="chunked", Content_Length="")
    endless = (b"10000\r\n" + b" " * 65536 + b"\r\n",) * (LIMIT // 65536 + 2)
    return DamagedRequest("endless chunks", (head, *endless), one_of(413))


def _lengths(chance: random.Random, body: bytes) -> DamagedRequest:
    length = chance.choice(("-1", "1e3", "0x10", "+5", " ", "9" * 30, "5, 5"))
    sent = request(body, Content_Length=length)
    return DamagedRequest("length", (sent,), one_of(400, 413))


def _bad_chunks(chance: random.Random, body: bytes) -> DamagedRequest:
    head = request(b"", Transfer_Encoding="chunked", Content_Length="")
    size = chance.choice((b"zz", b"-1", b"ffffffffffffffffff", b"", b"1;" + b"x" * 20000, b"5\x00"))
    return DamagedRequest(
        "bad chunks", (head + size + b"\r\n" + body[:5] + b"\r\n",), one_of(400, 413)
    )


def _both_lengths(_chance: random.Random, body: bytes) -> DamagedRequest:
    return DamagedRequest("smuggled", (request(body, Transfer_Encoding="chunked"),), one_of(400))


def _head(chance: random.Random, body: bytes) -> DamagedRequest:
    sent = bytearray(request(body))
    end = sent.index(b"\r\n\r\n")
    for _ in range(chance.choice((1, 2, 8))):
        sent[chance.randrange(end)] = chance.randrange(256)
    # The damage may hide the end of the head, or of the body; then nothing can be said.
    return DamagedRequest("spoilt head", (bytes(sent), b"\r\n\r\n"), (), hasty=True)


def _noise(chance: random.Random, body: bytes) -> DamagedRequest:
    noise = chance.choice(
        (
            chance.randbytes(200) + b"\r\n\r\n",
            b"\x00" * 1000,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"A" * 70000,
            b"POST /admit/pods HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
            b"POST " + b"/" * 20000 + b" HTTP/1.1\r\n\r\n",
            b"\r\n" * 500 + request(body),
        )
    )
    return DamagedRequest("noise", (noise,), (), hasty=True)


def _leaves(chance: random.Random, body: bytes) -> DamagedRequest:
    sent = request(body)
    return DamagedRequest("leaves", (sent[: chance.randrange(1, len(sent))],), (), hasty=True)


def _no_tls(chance: random.Random, body: bytes) -> DamagedRequest:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(300)
    noise = chance.choice(
        (request(body), hello, hello[:9], chance.randbytes(500), b"", b"\x15\x03")
    )
    return DamagedRequest("no tls", (noise,), (), tls=False, hasty=True)


MAKERS = (
    *(_plain, _workload, _in_chunks, _in_pieces, _pipelined, _timeouts, _elsewhere, _method),
    *(_content, _compressed, _large, _lengths, _bad_chunks, _both_lengths, _head, _noise),
    *(_leaves, _no_tls, _slow),
)
WEIGHTS = (50, 5, 5, 4, 2, 2, 2, 2, 2, 1, 1, 2, 2, 1, 5, 3, 5, 4, 1)
