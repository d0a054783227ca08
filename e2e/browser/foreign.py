"""A foreign site that knows the URL of the page, and tries all that a site can try."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

# What each attempt got: nothing, unless `read` has something that the page says.
ATTACK: Final = """(async () => {
  const url = "%s", read = {};
  const attempt = async (name, run) => {
    try { read[name] = await run(); } catch (error) { read[name] = ""; }
  };
  const wait = (element, append) => new Promise((done) => {
    element.onload = () => done("loaded"); element.onerror = () => done("");
    setTimeout(() => done(""), 2000); append(element);
  });
  const add = (element) => document.body.appendChild(element);
  await attempt("fetch", async () => await (await fetch(url)).text());
  await attempt("fetch with credentials", async () =>
    await (await fetch(url, {credentials: "include"})).text());
  await attempt("opaque fetch", async () => await (await fetch(url, {mode: "no-cors"})).text());
  await attempt("post", async () =>
    await (await fetch(url, {method: "POST", mode: "no-cors", body: "x"})).text());
  await attempt("put", async () => await (await fetch(url, {method: "PUT", body: "x"})).text());
  await attempt("request", () => new Promise((done) => {
    const request = new XMLHttpRequest(); request.open("GET", url);
    request.onload = () => done(request.responseText);
    request.onerror = () => done(""); request.send();
  }));
  await attempt("events", () => new Promise((done) => {
    const events = new EventSource(url + "events?since=0");
    for (const name of ["frame", "parts", "alive"]) events.addEventListener(name, () => done(name));
    events.onerror = () => done("");
  }));
  await attempt("image", () => wait(new Image(), (each) => { each.src = url; }));
  await attempt("script", () => wait(document.createElement("script"), (each) => {
    each.src = url; add(each); }));
  await attempt("style", () => wait(document.createElement("link"), (each) => {
    each.rel = "stylesheet"; each.href = url; add(each); }));
  await attempt("frame", async () => {
    const frame = document.createElement("iframe");
    frame.src = url; add(frame);
    await new Promise((done) => { frame.onload = done; setTimeout(done, 2000); });
    return frame.contentDocument ? frame.contentDocument.body.innerText : "";
  });
  await attempt("form", async () => {
    const frame = document.createElement("iframe"), form = document.createElement("form");
    frame.name = "target"; add(frame);
    Object.assign(form, {method: "POST", action: url, target: "target"}); add(form); form.submit();
    await new Promise((done) => setTimeout(done, 500));
    return frame.contentDocument ? frame.contentDocument.body.innerText : "";
  });
  await attempt("window", async () => {
    const opened = window.open(url);
    await new Promise((done) => setTimeout(done, 500));
    return opened && opened.document ? opened.document.body.innerText : "";
  });
  return read;
})()"""


@contextlib.asynccontextmanager
async def serve_foreign_site() -> AsyncIterator[int]:
    """Serve an empty page, and yield its port."""

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(text="<title>foreign</title><body></body>", content_type="text/html")

    server = web.Server(handle)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        port: int = listening.sockets[0].getsockname()[1]
        yield port
    finally:
        listening.close()
        await server.shutdown(1)
