"""The tables of all finding codes, in the order of the reference page."""

from typing import Final

import cli.diagnosis.codes
import cli.input.codes
import drawbridge.agreement.codes
import drawbridge.config.codes
import drawbridge.documents.codes

TABLES: Final = (
    drawbridge.documents.codes.CODES,
    drawbridge.config.codes.CODES,
    *drawbridge.agreement.codes.TABLES,
    cli.input.codes.CODES,
    cli.diagnosis.codes.CODES,
)
