"""Selects the features and gates of one scenario.

They are drawn first, because scenarios with every feature at random would never be satisfiable.
"""

from dataclasses import dataclass

from e2e.generator.draw import Draw

ALPHA = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
)
BETA = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAFractionalCapacityRange",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAAdminAccess",
)
# The share of scenarios that exercise each theme.
THEMES = {
    "counters": 0.28,
    "groups": 0.45,  # of those with counters
    "shares": 0.30,
    "taints": 0.22,
    "rules": 0.10,
    "lists": 0.18,
    "derived": 0.10,
    "binding": 0.08,
    "skip": 0.05,
    "admin": 0.12,
    "alternatives": 0.25,
    "all": 0.14,
    "constraints": 0.40,
    "config": 0.25,
    "held": 0.60,
    "stale": 0.12,
    "incomplete": 0.10,
    "invalid": 0.06,
    "broken": 0.05,
    "crowd": 0.025,
}


@dataclass(frozen=True)
class Plan:
    """The themes of one scenario and the gates its cluster has set."""

    themes: frozenset[str]
    gates: dict[str, bool]
    variant: str

    def has(self, theme: str) -> bool:
        """Return whether the scenario exercises it."""
        return theme in self.themes


def plan(draw: Draw) -> Plan:
    """Draw themes and gates."""
    themes = {theme for theme, share in THEMES.items() if draw.chance(share)}
    if "counters" not in themes:
        themes.discard("groups")
    cluster = draw.weighted({"everything": 0.62, "default": 0.18, "gaps": 0.20})
    gates: dict[str, bool] = {}
    if cluster != "default":
        gates = dict.fromkeys(ALPHA, True)
    if cluster == "gaps":
        gates |= {gate: draw.chance(0.5) for gate in ALPHA}
        gates |= {gate: False for gate in BETA if draw.chance(0.10)}
    return Plan(frozenset(themes), gates, variant(gates))


def variant(gates: dict[str, bool]) -> str:
    """Keep Kubernetes from its variant *stable*, which looks at pools in random order."""
    newer = {"DRAConsumableCapacity", "DRADeviceBindingConditions", "DRAFractionalCapacityRange"}
    on = [gate for gate in newer if gates.get(gate, True)]
    return "" if on or any(gates.get(gate) for gate in ALPHA) else "experimental"
