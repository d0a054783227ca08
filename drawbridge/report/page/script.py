"""The scripts of the page: one finds nodes, the other replaces the parts that changed.

Without it the page is complete, and stays as it was when it was loaded. It keeps what is open and
what has the focus, and says when it hears nothing. A policy allows exactly these texts by hashes.
"""

from typing import Final

SCRIPT: Final = """(() => {
  "use strict";
  const lost = document.getElementById("lost");
  let main = document.querySelector("main");
  let heard = Date.now();
  let work = Promise.resolve();

  const time = () => new Date(heard).toLocaleTimeString();
  const say = (text) => {
    if (lost.textContent !== text) lost.textContent = text;
    lost.hidden = !text;
  };
  const hear = () => { heard = Date.now(); say(""); };
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  const pause = () => new Promise((done) => setTimeout(done, 0));

  function replace(before, after) {
    const focused = before.contains(document.activeElement)
      ? document.activeElement.closest("[id]") : null;
    for (const each of [before, ...before.querySelectorAll("details")]) {
      const twin = each === before ? after : after.querySelector(`[id="${each.id}"]`);
      if (each.open && twin) twin.open = true;
    }
    before.replaceWith(after);
    const again = focused && document.getElementById(focused.id);
    const target = again && (again.querySelector("summary, a, [tabindex]") || again);
    if (target) target.focus({preventScroll: true});
  }

  async function replaceParts(parts) {
    let number = 0;
    for (const [key, text] of Object.entries(parts)) {
      const before = document.getElementById(key);
      const after = parse(text).body.firstElementChild;
      if (before && after) replace(before, after);
      number += 1;
      if (number % 20 === 0) await pause();
    }
  }

  async function replaceAll() {
    const response = await fetch(location.href, {cache: "no-store"});
    if (!response.ok) return;
    const after = parse(await response.text()).querySelector("main");
    replace(main, after);
    main = after;
  }

  const events = new EventSource(`events?since=${main.dataset.version}`);
  events.addEventListener("alive", hear);
  events.addEventListener("parts", (event) => {
    hear();
    const parts = JSON.parse(event.data);
    work = work.then(() => replaceParts(parts)).catch(() => {});
  });
  events.addEventListener("frame", () => {
    hear();
    work = work.then(replaceAll).catch(() => {});
  });
  events.addEventListener("error", () => {
    say(events.readyState === EventSource.CLOSED
      ? `Not live: drawbridge page has ended, or serves too many pages. State of ${time()}.`
      : `Not live: the connection is lost. State of ${time()}.`);
  });
  setInterval(() => {
    if (Date.now() - heard > 20000 && events.readyState !== EventSource.CLOSED) {
      say(`Not live: drawbridge page does not respond. State of ${time()}.`);
    }
  }, 5000);
})();
"""

# Without scripts there is no search, and the browser finds what is shown.
FIND: Final = (
    '<p id="find" hidden><label>Find a node, device, pod or namespace:'
    ' <input type="search" autocomplete="off" spellcheck="false"></label>'
    ' <span role="status"></span></p>\n'
)
SEARCH: Final = """(() => {
  "use strict";
  const box = document.getElementById("find");
  const input = box.querySelector("input");
  const said = box.querySelector("[role=status]");
  box.hidden = false;

  function find() {
    const wanted = input.value.trim().toLowerCase();
    let number = 0;
    for (const node of document.querySelectorAll("details.node")) {
      const is_wanted = !wanted || node.textContent.toLowerCase().includes(wanted);
      if (node.hidden === is_wanted) node.hidden = !is_wanted;
      number += is_wanted;
    }
    const text = wanted ? `${number} nodes` : "";
    if (said.textContent !== text) said.textContent = text;
  }
  input.addEventListener("input", find);
  new MutationObserver(() => { if (input.value) find(); })
    .observe(document.querySelector("main"), {childList: true, subtree: true});
})();
"""
