"""The codes of all rooms that look at a cluster, for configurations that speak of them."""

from typing import Final

import allocator.codes
import controller.codes
import dra.codes
import facts.codes
import judge.codes
import see.codes
import solver.codes
import translate.codes
import translate.targets.codes
import translate.verdicts
import webhook.codes

ROOMS: Final = (
    dra.codes.CODES,
    judge.codes.CODES,
    solver.codes.CODES,
    allocator.codes.CODES,
    facts.codes.CODES,
    translate.codes.CODES,
    translate.targets.codes.CODES,
    translate.verdicts.CODES,
    webhook.codes.CODES,
    controller.codes.CODES,
    see.codes.CODES,
)
CODES: Final = tuple(name for room in ROOMS for name in room)
