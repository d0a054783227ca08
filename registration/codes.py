"""The finding codes of all packages that look at a cluster: the codes a Configuration may name."""

from typing import Final

import dra.codes
import facts.codes
import judge.claim_codes
import judge.codes
import judge.config_codes
import judge.read_codes
import judge.reference_codes
import judge.validity_codes
import ledger.codes
import registration.admission_codes
import registration.allocator_codes
import registration.certificate_codes
import registration.controller_codes
import registration.ownership_codes
import report.codes
import solver.codes
import translate.changes.codes
import translate.codes
import translate.decisions.codes
import translate.legacy.codes
import translate.manifests.codes
import translate.targets.codes

TABLES: Final = (
    dra.codes.CODES,
    judge.codes.CODES,
    judge.validity_codes.CODES,
    judge.reference_codes.CODES,
    judge.read_codes.CODES,
    judge.config_codes.CODES,
    judge.claim_codes.CODES,
    solver.codes.CODES,
    ledger.codes.CODES,
    facts.codes.CODES,
    translate.codes.CODES,
    translate.legacy.codes.CODES,
    translate.targets.codes.CODES,
    translate.decisions.codes.CODES,
    translate.changes.codes.CODES,
    translate.manifests.codes.CODES,
    registration.admission_codes.CODES,
    registration.controller_codes.CODES,
    registration.allocator_codes.CODES,
    registration.ownership_codes.CODES,
    registration.certificate_codes.CODES,
    report.codes.CODES,
)
CODES: Final = tuple(name for table in TABLES for name in table)
