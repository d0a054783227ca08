"""The findings of this room."""

from dra.finding import Codes

CODES = Codes("judge", [])
