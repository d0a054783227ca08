"""Finding codes of the solver: the reasons why claims have no solution."""

from drawbridge.finding import Codes, Trait
from drawbridge.solver.eligibility import Stage

CODES = Codes()


NO_DEVICE_OF_CLASS = CODES.define("NoDeviceOfClass")
NO_DEVICE_MATCHES = CODES.define("NoDeviceMatches")
DEVICE_ELSEWHERE = CODES.define("DeviceElsewhere")
NO_DEVICE_FREE = CODES.define("NoDeviceFree")
CAPACITY_LACKING = CODES.define("CapacityLacking")
DEVICE_UNSUPPORTED = CODES.define("DeviceUnsupported")
GROUP_CLASH = CODES.define("GroupClash")
COMPANY_CLASH = CODES.define("CompanyClash")
COUNTERS_LACKING = CODES.define("CountersLacking")
DEVICE_TAINTED = CODES.define("DeviceTainted")
CONSTRAINT_UNMET = CODES.define("ConstraintUnmet")
RULE_UNMET = CODES.define("RuleUnmet")
TOO_FEW_TOGETHER = CODES.define("TooFewTogether")
TOO_MANY_RESULTS = CODES.define("TooManyResults")
POOL_UNUSABLE = CODES.define("PoolUnusable", Trait.DEPENDS_ON_SLICES)
CLAIM_REFUSED = CODES.define("ClaimRefused")
SELECTOR_FAILS = CODES.define("SelectorFails")
CAPACITY_UNCOUNTABLE = CODES.define("CapacityUncountable")
SELECTOR_TOO_EXPENSIVE = CODES.define("SelectorTooExpensive", Trait.DEPENDS_ON_SLICES)
NODE_SELECTOR_FAILS = CODES.define("NodeSelectorFails", Trait.DEPENDS_ON_SLICES)
SEARCH_GAVE_UP = CODES.define("SearchGaveUp")

# In the order for explanations: allocated devices matter only among matching ones.
CODE_BY_STAGE = {
    Stage.CLASS: NO_DEVICE_OF_CLASS,
    Stage.REQUEST: NO_DEVICE_MATCHES,
    Stage.NODE: DEVICE_ELSEWHERE,
    Stage.SUPPORT: DEVICE_UNSUPPORTED,
    Stage.HELD: NO_DEVICE_FREE,
    Stage.CAPACITY: CAPACITY_LACKING,
    Stage.GROUPS: GROUP_CLASH,
    Stage.COMPANY: COMPANY_CLASH,
    Stage.COUNTERS: COUNTERS_LACKING,
    Stage.TAINT: DEVICE_TAINTED,
    Stage.CONSTRAINT: CONSTRAINT_UNMET,
    Stage.RULE: RULE_UNMET,
}
