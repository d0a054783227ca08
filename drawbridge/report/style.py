"""The style of all pages: light and dark, for reading and printing, without external files.

A page may be served with a policy that refuses styles of elements, so colours and widths are
classes and SVG attributes.
"""

from typing import Final

_LIGHT: Final = """--text: #1a1a1a; --quiet: #444; --page: #fff; --line: #c4c4c4; --edge: #555;
  --head: #e9f0f7; --accent: #1f4e79; --code: #f4f4f4; --alarm: #fdecea; --link: #0b4f9e;
  --held: #1f4e79; --shared: #7b52ab; --free: #cfe8cf; --blocked: #b9b9b9; --tainted: #b2182b;
  --unknown: #f3e3b3;"""
_DARK: Final = """--text: #e8e8e8; --quiet: #b9bfc7; --page: #15181c; --line: #4a5059;
  --edge: #9aa2ad; --head: #222b36; --accent: #8ab8e6; --code: #1f242b;
  --alarm: #4a2023; --link: #9cc7f5;
  --held: #5b9bd8; --shared: #b08be0; --free: #2c4a30; --blocked: #6a6f76; --tainted: #e0525f;
  --unknown: #6b5a1f;"""
STYLE: Final = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  margin: 0 auto; max-width: 75rem; padding: 1rem 1.5rem 3rem; overflow-wrap: anywhere; }}
a {{ color: var(--link); }}
h1 {{ font-size: 1.7rem; margin: .5rem 0; }}
h2 {{ font-size: 1.3rem; margin: 2.2rem 0 .6rem; border-bottom: 2px solid var(--accent); }}
h3 {{ font-size: 1.05rem; margin: 1.4rem 0 .4rem; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
caption {{ text-align: left; color: var(--quiet); padding-bottom: .3rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .35rem .6rem;
  border: 1px solid var(--line); overflow-wrap: break-word; unicode-bidi: isolate; }}
thead th {{ background: var(--head); overflow-wrap: normal; }}
tbody th, td {{ max-width: 28rem; }}
td .bar {{ min-width: 6rem; height: .8rem; margin: .2rem 0; }}
td.number {{ text-align: right; white-space: nowrap; }}
tr.refused th, tr.stays th {{ background: var(--alarm); }}
.scroll {{ overflow-x: auto; }}
.bar {{ display: block; width: 100%; height: 1.4rem; border: 1px solid var(--edge);
  margin: .8rem 0; box-sizing: border-box; }}
.key {{ display: inline-block; width: .9rem; height: .9rem; border: 1px solid var(--edge);
  margin-right: .4rem; vertical-align: -.1rem; }}
.c-translated {{ fill: #1b7837; background: #1b7837; }}
.c-toTranslate {{ fill: #7fbf7b; background: #7fbf7b; }}
.c-byClass {{ fill: #d9f0d3; background: #d9f0d3; }}
.c-ownClaims {{ fill: #c7d5e8; background: #c7d5e8; }}
.c-stays {{ fill: #e6a93c; background: #e6a93c; }}
.c-refused {{ fill: #b2182b; background: #b2182b; }}
.c-held {{ fill: var(--held); background: var(--held); }}
.c-shared {{ fill: var(--shared); background: var(--shared); }}
.c-free {{ fill: var(--free); background: var(--free); }}
.c-blocked {{ fill: var(--blocked); background: var(--blocked); }}
.c-tainted {{ fill: var(--tainted); background: var(--tainted); }}
.c-unknown {{ fill: var(--unknown); background: var(--unknown); }}
pre {{ background: var(--code); border: 1px solid var(--line); padding: .6rem; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }}
ol > li {{ margin-bottom: 1.4rem; }}
.expected {{ font-weight: 600; }}
.quiet {{ color: var(--quiet); }}
.alarm {{ background: var(--alarm); border: 1px solid var(--edge); padding: .4rem .8rem; }}
.skip {{ position: absolute; left: -100rem; }}
.skip:focus {{ left: 1rem; top: .5rem; background: var(--page); padding: .3rem .6rem; }}
:focus-visible {{ outline: 3px solid var(--accent); outline-offset: 2px; }}
.legend {{ list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem;
  font-size: .9rem; }}
.node {{ border-bottom: 1px solid var(--line); unicode-bidi: isolate; }}
.node > summary {{ display: grid; gap: .8rem;
  grid-template-columns: minmax(9rem, 14rem) 1fr minmax(14rem, 22rem);
  align-items: center; padding: .2rem .3rem; cursor: pointer; }}
.node > summary .name::before {{ content: "\\25B8\\A0" / ""; }}
.node[open] > summary .name::before {{ content: "\\25BE\\A0" / ""; }}
.node > summary > * {{ overflow-wrap: anywhere; }}
.node .bar {{ height: 1rem; margin: 0; }}
.node .counts {{ font-size: .9rem; }}
.devices {{ padding: .2rem .3rem .8rem 1.4rem; font-size: .9rem; }}
.devices ul {{ list-style: none; margin: 0; padding-left: 1.2rem; }}
.devices > ul {{ padding-left: 0; }}
.devices li {{ overflow-wrap: anywhere; }}
@media (max-width: 45rem) {{ .node > summary {{ grid-template-columns: 1fr; gap: .2rem; }} }}
@media print {{
  :root {{ color-scheme: light; {_LIGHT} }}
  body {{ font-size: 10pt; max-width: none; padding: 0; }}
  .scroll {{ overflow: visible; }}
  table {{ font-size: 8pt; }}
  th, td {{ padding: .2rem .35rem; }}
  tr, pre {{ break-inside: avoid; }}
  h2, h3 {{ break-after: avoid; }}
  thead {{ display: table-header-group; }}
  .bar, .key, thead th, tr th {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  .screen {{ display: none; }}
}}
@page {{ margin: 15mm; }}
"""
