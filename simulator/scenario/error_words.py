"""Says in our words what msgspec says of a value that does not fit its place."""

from __future__ import annotations

import re

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_COUNTED = {"str": "character", "array": "item", "object": "field"}
_AT_LEAST, _AT_MOST = "at least", "at most"
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_INVALID = re.compile(r"Invalid (?:enum )?value '([^']*)'")
_LENGTH = re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)")
_RANGE = re.compile(r"Expected `(\w+)` (<=|>=|<|>) (\S+)")
_TYPES = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`")
_PATTERN = re.compile(r"Expected `str` matching regex ('.*?')(?=$|;| - )")
_AT = re.compile(r" - at `\$\.?([^`]*)`")
_COMPARED = {"<=": _AT_MOST, ">=": _AT_LEAST, "<": "less than", ">": "more than"}


def in_our_words(text: str) -> str:
    """Return the text of an error with msgspec's words replaced; any other text stays as it is."""
    text = _MISSING.sub(r"the field \1 is missing", text)
    text = _UNKNOWN.sub(r"there is no field \1", text)
    text = _INVALID.sub(r"'\1' is not one of the values allowed here", text)
    text = _LENGTH.sub(_of_length, text)
    text = _TYPES.sub(_of_types, text)
    text = _RANGE.sub(lambda match: f"expected {_kinds(match[1])}, {_COMPARED[match[2]]} {match[3]}", text)
    text = _PATTERN.sub(r"expected another text", text)
    return _AT.sub(r", at \1", text)


def _of_length(match: re.Match[str]) -> str:
    kind, sign, number = match.groups()
    counted = _COUNTED.get(kind, "item")
    return f"expected {_kinds(kind)} of {_COMPARED[sign]} {number} {counted}{'' if number == '1' else 's'}"


def _of_types(match: re.Match[str]) -> str:
    return f"expected {_kinds(match[1])}, got {_kinds(match[2])}"


def _kinds(text: str) -> str:
    return " or ".join(_KINDS.get(kind.strip(), kind.strip()) for kind in text.split("|"))
