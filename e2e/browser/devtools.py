"""Drives the browser by its debugging protocol: pages, scripts, keys, pictures and requests."""

import asyncio
import base64
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from e2e.browser.build import Browser

FOREIGN = "foreign.test"  # a host name that resolves to this machine
_SECONDS = 120
_POLICY = "Content Security Policy"
_LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--remote-debugging-port=0", "--no-first-run", "--disable-background-networking",
    f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1,EXCLUDE 127.0.0.1,MAP * ~NOTFOUND",
)  # fmt: skip


class Tab:
    """One tab; `responses` are the URL and status of each response, `dialogs` what was opened."""

    def __init__(self, driver: "Driver", session: str) -> None:
        self._driver = driver
        self._session = session
        self.responses: list[tuple[str, int]] = []
        self.dialogs: list[str] = []
        self._asked: dict[str, str] = {}
        self.refusals: list[str] = []  # by the policy of the page
        self._loaded = asyncio.Event()

    def handle(self, method: str, parameters: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Network.requestWillBeSent":
            self._asked[parameters["requestId"]] = parameters["request"]["url"]
        elif method == "Network.responseReceivedExtraInfo":
            # Also of a response that the browser keeps from the page.
            asked = self._asked.get(parameters["requestId"], "")
            self.responses.append((asked, parameters["statusCode"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])
        elif method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Log.entryAdded" and _POLICY in parameters["entry"]["text"]:
            self.refusals.append(parameters["entry"]["text"])

    async def call(self, method: str, **parameters: Any) -> Any:  # noqa: ANN401  # JSON
        """Send a command, and return its result."""
        return await self._driver.call(method, parameters, self._session)

    async def open(self, url: str) -> None:
        """Load a page."""
        self._loaded.clear()
        done = await self.call("Page.navigate", url=url)
        if "errorText" not in done:
            async with asyncio.timeout(_SECONDS):
                await self._loaded.wait()

    async def evaluate(self, script: str) -> Any:  # noqa: ANN401  # JSON
        """Return the value of an expression in the page; awaits a promise."""
        done = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise AssertionError(f"{script[:200]}: {done['exceptionDetails']}")
        return done["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        await self.evaluate(
            f"""new Promise((done, fail) => {{
              const end = Date.now() + {_SECONDS * 900};
              const look = () => {{
                if ({script}) done();
                else if (Date.now() > end) fail(new Error("it did not become true"));
                else setTimeout(look, 50);
              }};
              look();
            }})"""
        )

    async def press(self, key: str, code: int) -> None:
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    async def prefer(self, scheme: str) -> None:
        """Prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    async def take_picture(self) -> bytes:
        """Return a picture of what the window shows, as PNG."""
        done = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(done["data"])


class Driver:
    """The connection to a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, Tab] = {}

    async def read(self) -> None:
        """Read results and events, until the browser ends."""
        async for message in self._socket:
            value = json.loads(message.data)
            if "id" not in value:
                tab = self._tabs.get(value.get("sessionId", ""))
                if tab is not None:
                    tab.handle(value["method"], value["params"])
            elif "error" in value:
                error = AssertionError(f"{value['error']}")
                self._waiting.pop(value["id"]).set_exception(error)
            else:
                self._waiting.pop(value["id"]).set_result(value["result"])

    async def call(self, method: str, parameters: dict[str, Any], session: str = "") -> Any:  # noqa: ANN401  # JSON
        """Send a command, and return its result."""
        number = next(self._numbers)
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        async with asyncio.timeout(_SECONDS):
            return await future

    async def open_tab(self) -> Tab:
        """Open an empty tab."""
        target = (await self.call("Target.createTarget", {"url": "about:blank"}))["targetId"]
        attached = await self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = self._tabs[attached["sessionId"]] = Tab(self, attached["sessionId"])
        for domain in ("Page", "Network", "Log"):
            await tab.call(f"{domain}.enable")
        return tab


@contextlib.asynccontextmanager
async def drive(browser: Browser, folder: Path) -> AsyncIterator[Driver]:
    """Start the browser, and end it."""
    process = await asyncio.create_subprocess_exec(
        str(browser.program), *_FLAGS, f"--user-data-dir={folder / 'driven'}",
        env=browser.environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_SECONDS):
            listening = None
            while listening is None:
                line = await process.stderr.readline()
                if not line:
                    raise AssertionError("the browser ended before it listened")
                listening = _LISTENING.search(line)
        drain = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(listening[1].decode(), max_msg_size=0) as socket,
        ):
            driver = Driver(socket)
            reading = asyncio.create_task(driver.read())
            try:
                yield driver
            finally:
                reading.cancel()
                drain.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
