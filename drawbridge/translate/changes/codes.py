"""Finding codes of changes to a pod other than its device requests."""

from drawbridge.finding import Codes

CODES = Codes()

TOLERATION_ADDED = CODES.define("TolerationAdded")
VISIBLE_DEVICES_DROPPED = CODES.define("VisibleDevicesDropped")
VISIBLE_WITHOUT_CLAIM = CODES.define("VisibleWithoutClaim")
DEVICES_BY_NAME = CODES.define("DevicesByName")
RUNTIME_CLASS_KEPT = CODES.define("RuntimeClassKept")
ALLOCATION_NOT_ENFORCED = CODES.define("AllocationNotEnforced")
RESIZE_REFUSED = CODES.define("ResizeRefused")
RDMA_BY_HOST_ACCESS = CODES.define("RdmaByHostAccess")
QUEUE_COUNTS_NAMES = CODES.define("QueueCountsNames")
QUEUE_MAPPING_MISSING = CODES.define("QueueMappingMissing")
QUEUE_READS_TEMPLATE = CODES.define("QueueReadsTemplate")
DUAL_ADVERTISED = CODES.define("DualAdvertised")
DUAL_NODES_AVOIDED = CODES.define("DualNodesAvoided")
DUAL_DEVICES_HELD = CODES.define("DualDevicesHeld")
SCHEDULER_OURS = CODES.define("SchedulerOurs")
BRIDGE_SCHEDULER_MISSING = CODES.define("BridgeSchedulerMissing")
DEVICES_DIVIDED = CODES.define("DevicesDivided")
DRIVER_NOT_OWNED = CODES.define("DriverNotOwned")
FENCE_TOLERATED = CODES.define("FenceTolerated")
CLAIMS_LEFT_TO_SCHEDULER = CODES.define("ClaimsLeftToScheduler")
GANG_SPLIT = CODES.define("GangSplit")
CLAIM_NAMED_TWICE = CODES.define("ClaimNamedTwice")
CLASS_NAME_MIXED = CODES.define("ClassNameMixed")

REQUEST_RETURNED = CODES.define("RequestReturned")
REQUEST_BESIDE_CLAIM = CODES.define("RequestBesideClaim")
TRANSLATION_CHANGED = CODES.define("TranslationChanged")
