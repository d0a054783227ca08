"""A webhook that only echoes, in the form of ours: what any webhook in Python costs here.

    python -m e2e.installed.echo CERTIFICATE KEY ADDRESS

Reads the review whole, and allows it with a patch that is ready; says its port as the processes of
an installation do. Knows nothing of pods.
"""

import asyncio
import base64
import json
import ssl
import sys

import msgspec
from aiohttp import web

PATCH = base64.b64encode(
    b'[{"op":"add","path":"/metadata/labels/rig.drawbridge.dev~1echo","value":"true"}]'
).decode()
# As ours: longer than the 90 s for which the API server keeps an idle connection.
IDLE_SECONDS = 120.0


async def echo(request: web.BaseRequest) -> web.Response:
    """Answer one review; a client that asks whether anybody is there sends none."""
    if request.method != "POST":
        return web.Response(text="ok")
    review = msgspec.json.decode(await request.read())
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": PATCH,
    }
    answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def serve(certificate: str, key: str, host: str) -> None:
    """Serve on port 443 of an address until ended."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = web.Server(echo, access_log=None, keepalive_timeout=IDLE_SECONDS)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, host, 443, ssl=context)
    address = f"{host}:{listening.sockets[0].getsockname()[1]}"
    told = {"msg": "listening", "name": "admission", "address": address}
    sys.stderr.write(f"{json.dumps(told)}\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
