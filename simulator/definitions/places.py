"""Where objects stand in the files that they were read from: file, document and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value of a document, such as ``("queues", 3)``."""
_TOKEN = re.compile(
    rb"""(?xs)
      (?P<text> "(?: [^"\\] | \\. )*+" | '(?: [^'\\] | \\. )*+' )
    | (?P<comment> /\*.*?\*/ | //[^\n]* )
    | (?P<sign> [\[\]{}:,\n] )
    | (?P<word> [^\s\[\]{}:,"'/]+ )
    """
)


class Place(msgspec.Struct, frozen=True, order=True):
    """Where an object stands.

    Attributes:
        file: the file's name, or ``standard input``.
        line: the line in it, counted from 1.
        document: the document in it, counted from 1, where the file has several.
    """

    file: str
    line: int
    document: int | None = None

    def __str__(self) -> str:
        document = "" if self.document is None else f"document {self.document}, "
        return f"{self.file}, {document}line {self.line}"

    @property
    def file_and_line(self) -> str:
        """The place as compilers write it: ``topology.yaml:41``."""
        return f"{self.file}:{self.line}"


Places = Mapping[Path, Place]


def places_in_json(data: bytes, file: str) -> dict[Path, Place]:
    """Return where the sections of an export and their items stand in its text.

    A section that is there twice has no places: which one counts depends on the release.
    """
    found: dict[Path, Place] = {}
    twice = set()
    for path, line in json_lines(data, depth_max=2):
        if len(path) == 1 and path in found:
            twice.add(path[0])
        found[path] = Place(file, line)
    return {path: place for path, place in found.items() if path and path[0] not in twice}


def json_lines(data: bytes, depth_max: int) -> Iterator[tuple[Path, int]]:
    """Yield the line of each value of a JSON text, with the path to it, of at most ``depth_max`` steps.

    The line of what has a key is that of the key. The text has been read already: servers until 3.10 take
    comments and single quotes.
    """
    path: list[str | int] = []
    line, key_line, key = 1, 1, ""
    opened: list[bool] = []  # of the lists and objects around, whether each is an object
    behind_colon = False

    for token in _TOKEN.finditer(data):
        sign, text = token["sign"], token[0]
        if sign == b"\n":
            line += 1
        elif sign in (b"}", b"]"):
            opened.pop()
            path.pop()
        elif sign == b",":
            behind_colon = False
            if not opened[-1]:
                path[-1] = int(path[-1]) + 1
        elif sign == b":":
            behind_colon, path[-1] = True, key
        elif token["comment"] is None:
            is_key = bool(opened) and opened[-1] and not behind_colon
            if is_key:
                key, key_line = _text_of(text), line
            elif len(path) <= depth_max:
                yield tuple(path), key_line if opened and opened[-1] else line
            if sign is not None:
                opened.append(sign == b"{")
                path.append("" if sign == b"{" else 0)
                behind_colon = False
        if sign is None:
            line += text.count(b"\n")


def _text_of(quoted: bytes) -> str:
    try:
        return str(msgspec.json.decode(quoted))
    except (msgspec.DecodeError, UnicodeDecodeError):  # as only lenient servers read it
        return quoted[1:-1].decode(errors="replace")
