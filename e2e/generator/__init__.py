"""Scenarios by seed: small clusters and the claims of one pod, hostile in many ways at once.

    python -m e2e.generator 0:10            prints JSON lines in the oracle's scenario format

A scenario is nodes, slices, classes, allocated claims, taint rules, gates and claims to allocate,
in objects as the API server stores them. It imports nothing of ours outside this package, so that
it shares none of our mistakes. The same seed gives the same scenario for ever; a change of the
distribution is a new GENERATION.

Distribution (shares of scenarios; `plan.THEMES` and the tables of each module are the figures):

- 1 to 3 nodes in two zones; 1 or 2 drivers. Pools by form: node-local 45%, all nodes 17%, node
  selector 15%, selection per device 10%, slices of one pool spread over nodes 13%; 1 to 3 slices of
  2 to 5 devices (crowds of 8 in 2.5%, with counts around the 32 results of a claim).
- Gates: everything on 62%, as 1.37 has them 18%, with gaps 20% (each beta off with 10%, each alpha
  with 50%).
- Themes that a scenario exercises: counters 28% (45% of them with compatibility groups), shared
  devices with capacity policies 30%, taints 22%, taint rules 10%, list attributes 18%, derived
  attributes 10%, binding conditions 8%, optional node operations 5%, adminAccess 12%,
  firstAvailable 25%, All 14%, constraints 40%, configuration 25%, devices held by other claims 60%,
  slices of another generation 12%, incomplete pools 10%, invalid pools 6%, selectors and classes
  that break 5%.
- 1 to 3 claims of 1 to 3 requests; counts mostly 1 or 2; a selector in 35% of requests. Attributes
  are missing in 12% of devices, or of another type than elsewhere.

About half of the scenarios are satisfiable on at least one node (`python -m e2e.differential`
prints the share). Sizes are small, so that an exhaustive search ends. Left out on purpose: a device
that publishes both `x` and `driver/x` (read at random upstream), steps of zero (they crash it), and
the variant *stable* (it looks at pools in random order).
"""

from e2e.generator.asks import claims, classes
from e2e.generator.devices import Json
from e2e.generator.draw import Draw
from e2e.generator.fleet import nodes, rules, slices
from e2e.generator.held import allocated
from e2e.generator.plan import plan

GENERATION = 1


def scenario(seed: int) -> Json:
    """Make the scenario of a seed."""
    draw = Draw(seed)
    about = plan(draw)
    fleet = nodes(draw, about)
    names = [f"node-{number}" for number in range(len(fleet))]
    published = slices(draw, about, names)
    out: Json = {
        "name": f"generated-{GENERATION}-{seed}",
        "seed": seed,
        "version": "1.37",
        "gates": about.gates,
        "nodes": fleet,
        "slices": published,
        "classes": classes(draw, about),
        "claims": claims(draw, about),
        "allocated": allocated(draw, about, published),
        "rules": rules(draw, about, names),
    }
    if about.variant:
        out["variant"] = about.variant
    return out
