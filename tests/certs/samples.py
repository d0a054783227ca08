"""Certificate authorities of the tests, by letter."""

import functools

from certs.authority import NONE, Authorities, Authority, combine_certificates, create_authority

DAY = 86_400.0
START = 1_800_000_000.0
LIFE = 90 * DAY
MADE = {"a": 0.0, "b": 80.0, "c": 160.0, "z": -10.0}


@functools.cache
def authority(letter: str) -> Authority:
    """Return the CA with this letter; each is made once."""
    return create_authority(START + MADE[letter] * DAY, LIFE)


def authorities(letters: list[str] | None) -> Authorities:
    """Return authorities: the first signs, the second is upcoming, all are trusted; `-` is none."""
    if not letters:
        return NONE
    current, upcoming, *others = [*letters, "-", "-"]
    signers = [None if each == "-" else authority(each) for each in (current, upcoming)]
    trusted = [authority(each).certificate for each in (current, upcoming, *others) if each != "-"]
    return Authorities(signers[0], signers[1], combine_certificates(trusted))
