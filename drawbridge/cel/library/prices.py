"""The price of each function whose work depends on its arguments: the most that a call may take.

The unit is that of `drawbridge.cel.meter`. A function that is not in the table works on numbers or
on values of a fixed size. Every price is known before the call starts, from its arguments alone.
"""

import re
from collections.abc import Mapping
from typing import Final

from drawbridge.cel.library.regex import find_all_price, search_price
from drawbridge.cel.meter import Price
from drawbridge.cel.values import CelValue, Map, Optional, Url, extent

_SIZED: Final = (str, bytes, list, tuple, dict, Map)
_NESTED: Final = (list, tuple, dict, Map, Optional)
_CONTAINERS: Final = (list, tuple)
_WIDTH: Final = re.compile(r"%\.([0-9]{1,9})[0-9]*[ef]")
_WIDEST: Final = 65_536
# Of one element: copied, created, visited by code in Python, compared with another.
_COPIED, _CREATED, _VISITED, _COMPARED = 0.4, 1, 8, 14
# Of a number with a fraction or a time as text: the greatest double has 309 digits.
_WRITTEN: Final = 300
# Of one character: copied, looked at, converted by a table, by code in Python.
_MOVED, _SCANNED, _MAPPED, _PARSED = 0.02, 0.2, 2, 12


def _length(value: CelValue) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


def _bytes(value: CelValue) -> int:
    """Return the size in memory: what a text can grow to must have a limit, too."""
    wide = isinstance(value, str) and not value.isascii()
    return 4 * _length(value) if wide else _length(value)


def _fixed(amount: int) -> Price:
    return lambda *_: amount


def _over(rate: float, base: int = 2) -> Price:
    """Price one pass over the first argument."""
    return lambda value, *_: base + int(_length(value) * rate)


def _both(rate: float) -> Price:
    return lambda a, b: 2 + int((_length(a) + _length(b)) * rate)


def _search(text: CelValue, part: CelValue, *_: CelValue) -> int:
    """Price a search for a text: a short one may be compared at every position."""
    most = min(_length(part), 100 if _length(text) < 30_000 else 8)
    return 10 + int(_length(text) * (1 + most) * _MOVED)


def _backward_search(text: CelValue, part: CelValue, *_: CelValue) -> int:
    return 4 + int(_length(text) * (1 + min(_length(part), _length(text))) * _MOVED)


def _affix(_: CelValue, affix: CelValue) -> int:
    return 1 + int(_length(affix) * _MOVED)


def _smaller(a: CelValue, b: CelValue) -> int:
    return 1 + int(min(_length(a), _length(b)) * _MOVED)


def _replace(text: CelValue, old: CelValue, new: CelValue, limit: CelValue = -1) -> int:
    searched = 2 * _search(text, old)
    if not isinstance(text, str) or not isinstance(old, str):
        return searched
    count = len(text) // max(len(old), 1) + 1
    if type(limit) is int and limit >= 0:
        count = min(count, limit)
    return 20 + searched + int((len(text) + count * _bytes(new)) * _MOVED) + count // 2


def _split(text: CelValue, separator: CelValue, limit: CelValue = -1) -> int:
    searched = _search(text, separator)
    parts = _length(text) // max(_length(separator), 1) + 1
    if type(limit) is int and limit >= 0:
        parts = min(parts, limit)
    return 10 + searched + parts * _CREATED + int(_length(text) * _MOVED)


def _join(texts: CelValue, separator: CelValue = "") -> int:
    if not isinstance(texts, _CONTAINERS):
        return 1
    written = sum(map(_bytes, texts)) + len(texts) * _bytes(separator)
    return 2 + len(texts) * _VISITED + int(written * _MOVED)


def _map_text(text: CelValue) -> int:
    return 2 + int(_length(text) * (_MAPPED if isinstance(text, str) else _MOVED))


def _format(text: CelValue, args: CelValue) -> int:
    """Price the clauses, every character that they write, and their widths."""
    if not isinstance(text, str):
        return 1
    widths = sum(min(int(width), _WIDEST) for width in _WIDTH.findall(text))
    clauses = text.count("%")
    return 20 + len(text) // 4 + clauses * 60 + extent(args, 3, _WRITTEN) + int(widths * _SCANNED)


def _membership(element: CelValue, container: CelValue) -> int:
    return _position(container, element) if isinstance(container, _CONTAINERS) else 1


def _position(elements: CelValue, wanted: CelValue) -> int:
    """Price the comparison of all elements with one value."""
    if not isinstance(elements, _CONTAINERS):
        return extent(elements) if isinstance(elements, _NESTED) else 1
    if isinstance(wanted, _NESTED):
        return extent(elements) + _COMPARED * len(elements)
    return int(len(elements) * (_COMPARED + _characters(wanted) * _MOVED))


def _characters(value: CelValue) -> int:
    """Return the size of a value that one comparison may go over."""
    return len(value.text) if isinstance(value, Url) else _length(value)


def _pairs(a: CelValue, b: CelValue) -> int:
    """Price the comparison of each element of a list with each one of another."""
    if not isinstance(a, _CONTAINERS) or not isinstance(b, _CONTAINERS):
        return 1
    texts = {type(element) for element in a} | {type(element) for element in b}
    if len(texts) == 1 and texts <= _HASHED:
        return 60 + (len(a) + len(b)) * 6 + int((extent(a) + extent(b)) * 0.2)
    return 60 + 2 * (_COMPARED * len(a) * len(b) + min(extent(a) * len(b), extent(b) * len(a)))


def _equivalence(a: CelValue, b: CelValue) -> int:
    return 2 * _pairs(a, b)


def _distinct(elements: CelValue) -> int:
    return _pairs(elements, elements) // 2


def _sort(elements: CelValue, keys: CelValue = None) -> int:
    compared = elements if keys is None else keys
    if not isinstance(compared, _CONTAINERS):
        return 1
    count = len(compared)
    longest = max(map(_length, compared), default=0)
    comparison = (3 if type(compared[0]) in _HASHED else 40) if count else 0
    return 60 + count * (_VISITED + int(count.bit_length() * (comparison + longest * _MOVED)))


def _order(elements: CelValue) -> int:
    """Price one comparison of each element with the next or the best one."""
    return extent(elements, _MOVED) * 2


def _flatten(elements: CelValue, depth: CelValue = 1) -> int:
    """Price a new list: one level visits each element and copies what lies in those, others all."""
    if not isinstance(elements, _CONTAINERS):
        return 1
    if depth == 1:
        inner = sum(map(_length, elements))
        return 10 + len(elements) * _VISITED + inner // 2
    return extent(elements)


def _range(count: CelValue) -> int:
    # From 1.37 on, a range beyond the limit is a quick error; before, it is one of that size.
    return 1 + max(count, 0) if isinstance(count, int) else 1


def _slice(elements: CelValue, start: CelValue, end: CelValue) -> int:
    count = end - start if isinstance(start, int) and isinstance(end, int) else 0
    return 2 + int(min(max(count, 0), _length(elements)) * _COPIED)


def _insert(given: CelValue, *entry: CelValue) -> int:
    """Price the copy of a map, and the entries of another."""
    return 40 + _VISITED * sum(map(_length, (given, entry[0] if len(entry) == 1 else 0)))


def _zoned(_: CelValue, name: CelValue) -> int:
    """Price the search for the file of a time zone, which may not exist."""
    search = 0 if isinstance(name, str) and ":" in name else 6_000
    return 120 + search + _length(name) // 5


def _version(text: CelValue, *_: CelValue) -> int:
    """Price a version so that none has many identifiers; comparisons are not priced by them."""
    parts = max(text.count(".") - 2, 0) if isinstance(text, str) else 0
    return 60 + _PARSED * _length(text) + 300 * parts * parts


# A constant is as long as the expression at most, so a comparison with one needs no price. A
# constant time zone is looked up once.
PRICES_WITH_CONSTANT: Final[Mapping[Price, Price | None]] = {
    _affix: None,
    _smaller: None,
    _zoned: _fixed(120),
}
_HASHED: Final = frozenset({int, str, bool, bytes})
_READ_TEXT: Final = _over(_PARSED, 60)

PRICES: Final[Mapping[str, Price]] = {
    # Operators
    "add_bytes": _both(_MOVED),
    "add_list": _both(_COPIED),
    "add_string": _both(_MOVED),
    **{f"{order}_{kind}": _smaller
       for order in ("less", "less_equals", "greater", "greater_equals")
       for kind in ("string", "bytes")},
    "in_list": _membership,
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert,
    # Texts
    "contains_string": _search,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "string_index_of_string": _search,
    "string_index_of_string_int": _search,
    "string_last_index_of_string": _backward_search,
    "string_last_index_of_string_int": _backward_search,
    "string_lower_ascii": _map_text,
    "string_upper_ascii": _map_text,
    "strings_quote": _map_text,
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _over(_MOVED),
    "string_substring_int_int": _over(_MOVED),
    "string_trim": _over(_SCANNED),
    "string_format": _format,
    "list_join": _join,
    "list_join_string": _join,
    "matches": search_price,
    "matches_string": search_price,
    "string_find_string": search_price,
    "string_find_all_string": find_all_price,
    "string_find_all_string_int": find_all_price,
    # Lists
    "list_a_index_of_int": _position,
    "list_a_last_index_of_int": _position,
    "list_includes_dyn_dyn": _position,
    "dra_includes_dyn_dyn": _position,
    "list_distinct": _distinct,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_reverse": _over(_COPIED),
    "list_slice": _slice,
    "lists_range": _range,
    "optional_unwrap": _over(_VISITED),
    "optional_unwrapOpt": _over(_VISITED),
    "list_sets_contains_list": _pairs,
    "list_sets_equivalent_list": _equivalence,
    "list_sets_intersects_list": _pairs,
    **{f"list_{kind}_{name}": _sort
       for name in ("sort", "sortByAssociatedKeys")
       for kind in ("int", "uint", "double", "bool", "google.protobuf.Duration",
                    "google.protobuf.Timestamp", "string", "bytes")},
    **{id_.format(kind): _order
       for id_ in ("list_{}_is_sorted_bool", "list_{0}_min_{0}", "list_{0}_max_{0}")
       for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")},
    **{f"list_{kind}_sum_{kind}": _order for kind in ("int", "uint", "double", "duration")},
    # Conversions
    "string_to_bytes": _over(_MOVED),
    "bytes_to_string": _over(_MOVED),
    "string_to_bool": _over(_MOVED),
    "string_to_int64": _over(_SCANNED, 20),
    "string_to_uint64": _over(_SCANNED, 20),
    "string_to_double": _over(_MAPPED, 30),
    "double_to_string": _fixed(80),
    "timestamp_to_string": _fixed(80),
    "duration_to_string": _fixed(40),
    "string_to_timestamp": _over(_SCANNED, 120),
    "string_to_duration": _READ_TEXT,
    **{f"timestamp_to_{part}_with_tz": _zoned
       for part in ("year", "month", "day_of_year", "day_of_month", "day_of_month_1_based",
                    "day_of_week", "hours", "minutes", "milliseconds")},
    "timestamp_to_seconds_tz": _zoned,
    **{f"timestamp_to_{part}": _fixed(20)
       for part in ("year", "month", "day_of_year", "day_of_month", "day_of_month_1_based")},
    # Kubernetes' types
    "string_to_url": _READ_TEXT,
    "is_url_string": _READ_TEXT,
    "url_get_query": lambda url: 60 + _PARSED * _length(getattr(url, "query", "")),
    "url_get_host": _fixed(4),
    "string_to_ip": _over(1, 120),
    "is_ip": _over(1, 120),
    "ip_is_canonical": _over(1, 200),
    "ip_to_string": _fixed(120),
    "string_to_cidr": _over(1, 140),
    "is_cidr": _over(1, 140),
    "cidr_to_string": _fixed(130),
    "cidr_contains_ip_string": lambda _, text: 120 + _length(text),
    "cidr_contains_cidr_string": lambda _, text: 140 + _length(text),
    "string_to_quantity": _over(_SCANNED, 120),
    "is_quantity_string": _over(_SCANNED, 120),
    "quantity_add": _fixed(60),
    "quantity_add_int": _fixed(80),
    "quantity_sub": _fixed(60),
    "quantity_sub_int": _fixed(80),
    "string_to_semver": _version,
    "string_bool_to_semver": _version,
    "is_semver_string": _version,
    "is_semver_string_bool": _version,
    "format-validate": lambda _, text: 100 + 2 * _length(text),
}  # fmt: skip
