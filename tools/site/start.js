// Draws the diagrams in the colours of the page; without mermaid they stay text.
if (typeof mermaid !== "undefined") {
  const dark = document.body.dataset.theme === "dark" || (document.body.dataset.theme !== "light"
    && window.matchMedia("(prefers-color-scheme: dark)").matches);
  mermaid.initialize({startOnLoad: true, securityLevel: "strict", theme: dark ? "dark" : "neutral"});
}
