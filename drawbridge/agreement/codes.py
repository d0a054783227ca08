"""The finding codes of all packages that look at a cluster: the codes a Configuration may name."""

from typing import Final

import drawbridge.agreement.admission_codes
import drawbridge.agreement.allocator_codes
import drawbridge.agreement.operation_codes
import drawbridge.dra.claim_codes
import drawbridge.dra.codes
import drawbridge.dra.quota_codes
import drawbridge.facts.codes
import drawbridge.judge.claims.codes
import drawbridge.judge.slices.codes
import drawbridge.ledger.codes
import drawbridge.report.codes
import drawbridge.report.stuck.codes
import drawbridge.solver.codes
import drawbridge.translate.changes.codes
import drawbridge.translate.codes
import drawbridge.translate.decisions.codes
import drawbridge.translate.legacy.codes
import drawbridge.translate.manifests.codes
import drawbridge.translate.targets.codes

TABLES: Final = (
    drawbridge.dra.codes.CODES,
    drawbridge.judge.slices.codes.CODES,
    drawbridge.judge.claims.codes.CODES,
    drawbridge.dra.claim_codes.CODES,
    drawbridge.solver.codes.CODES,
    drawbridge.ledger.codes.CODES,
    drawbridge.dra.quota_codes.CODES,
    drawbridge.facts.codes.CODES,
    drawbridge.translate.codes.CODES,
    drawbridge.translate.legacy.codes.CODES,
    drawbridge.translate.targets.codes.CODES,
    drawbridge.translate.decisions.codes.CODES,
    drawbridge.translate.changes.codes.CODES,
    drawbridge.translate.manifests.codes.CODES,
    drawbridge.agreement.admission_codes.CODES,
    drawbridge.agreement.operation_codes.CODES,
    drawbridge.agreement.allocator_codes.CODES,
    drawbridge.report.codes.CODES,
    drawbridge.report.stuck.codes.CODES,
)
ACCEPTED_NAMES: Final = tuple(name for table in TABLES for name in table)
