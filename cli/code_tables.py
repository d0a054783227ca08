"""The tables of all finding codes, in the order of the reference page."""

from typing import Final

import cli.codes
import cli.doctor_codes
import config.codes
import documents.codes
import registration.codes

TABLES: Final = (
    documents.codes.CODES,
    config.codes.CODES,
    *registration.codes.TABLES,
    cli.codes.CODES,
    cli.doctor_codes.CODES,
)
