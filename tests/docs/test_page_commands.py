"""Each command of a block `console page` serves a page that opens, until Ctrl-C ends it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession

from tests.cluster.fake.api import FakeApi
from tests.docs.test_commands import PAGE, PAGES, ROOT, console, steps

# Each command once, with a page that has it.
COMMANDS = {
    step.command: page.name
    for page in PAGES
    for block in console(page)
    if PAGE in block.words[1:]
    for step in steps(block)
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("command", "page"), COMMANDS.items())
async def test_a_command_serves_a_page(command: str, page: str, tmp_path: Path) -> None:
    program, *words = command.split()
    assert program == "drawbridge", page
    if "--port" in words:  # another process may have it
        words[words.index("--port") + 1] = "0"
    async with FakeApi() as api:
        environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig(tmp_path / "config"))}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cli", *words, cwd=ROOT, env=environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            url = (await process.stdout.readline()).decode().strip()
            async with ClientSession() as session:
                for path in ("", "audit"):
                    async with session.get(f"{url}{path}") as response:
                        assert (response.status, "<main" in await response.text()) == (200, True)
            process.send_signal(signal.SIGINT)
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert (process.returncode, "Ctrl-C ends it" in said.decode()) == (0, True), said.decode()
