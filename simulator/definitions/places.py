"""Where objects stand in the files that they were read from: file, document and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from simulator.json_reading import DEPTH_MAX

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
_NO_BRACKETS = re.compile(
    rb"""(?xs)
    (?: [^\[\]{}"'/]++ | " (?: [^"\\] | \\. )*+ " | ' (?: [^'\\] | \\. )*+ ' | /\*.*?\*/ | //[^\n]* | / )*+
    """
)


class Place(msgspec.Struct, frozen=True, order=True):
    """Where an object stands.

    Attributes:
        file: the file's name, as ``printable`` returns it, or ``standard input``.
        line: the line in it, counted from 1.
        document: the document in it, counted from 1, where the file has several.
        address: what the object has besides, where its tool names it: ``module.shop.rabbitmq_queue.orders["eu"]``.
    """

    file: str
    line: int
    document: int | None = None
    address: str | msgspec.UnsetType = msgspec.UNSET

    def __str__(self) -> str:
        document = "" if self.document is None else f"document {self.document}, "
        return f"{self.file}, {document}line {self.line}{self._named}"

    @property
    def file_and_line(self) -> str:
        """The place as compilers write it: ``topology.yaml:41``."""
        return f"{self.file}:{self.line}{self._named}"

    @property
    def _named(self) -> str:
        return "" if self.address is msgspec.UNSET else f" ({self.address})"


Places = Mapping[Path, Place]


def printable(file: str) -> str:
    """Return a file's name with a sign for each byte that is not text, as output can hold it."""
    return file.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def places_in_json(data: bytes, file: str) -> dict[Path, Place]:
    """Return where the sections of an export and their items stand in its text.

    A section that is there twice has no places: which one counts depends on the release.
    """
    found: dict[Path, Place] = {}
    file = printable(file)
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

    at = 0
    while token := _TOKEN.search(data, at):
        at, sign, text = token.end(), token["sign"], token[0]
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
            if sign is not None and len(path) >= depth_max:
                end = _behind(data, at)
                line += data.count(b"\n", at, end)
                at = end
            elif sign is not None:
                opened.append(sign == b"{")
                path.append("" if sign == b"{" else 0)
                behind_colon = False
        if sign is None:
            line += text.count(b"\n")


def repeated_key(data: bytes) -> tuple[Path, int] | None:
    """Return the path of the first key of a JSON text that its object has already, and the line; ``None``: no such."""
    seen: set[Path] = set()
    for path, line in json_lines(data, DEPTH_MAX):
        if path in seen:
            return path, line
        seen.add(path)
    return None


def _behind(data: bytes, at: int) -> int:
    """Return the byte behind the list or object that was opened before ``at``."""
    depth = 1
    while depth:
        at = _NO_BRACKETS.match(data, at).end() + 1  # type: ignore[union-attr]  # which matches nothing, too
        depth += 1 if data[at - 1] in b"[{" else -1
    return at


def _text_of(quoted: bytes) -> str:
    try:
        return str(msgspec.json.decode(quoted))
    except (msgspec.DecodeError, UnicodeDecodeError):  # as only lenient servers read it
        return quoted[1:-1].decode(errors="replace")
