"""Random messages, SQL expressions and filter sets for streams."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from proton import Described, float32, int32, symbol, timestamp, ubyte, uint, ulong

from simulator.server.amqp10.frames import Codec, Header, Properties

_PROPERTIES: dict[str, tuple[Any, ...]] = {
    "subject": ("a", "order.new", "line\nbreak", "ünï", "50%", "a_b", "'q'", ""),
    "to": ("/queues/x", "abc"),
    "message_id": (ulong(5), "m1", UUID(int=7), b"\x01\x02"),
    "user_id": (b"guest",),
    "reply_to": ("r",),
    "correlation_id": (ulong(9), "c"),
    "content_type": ("text/plain",),
    "content_encoding": ("gzip",),
    "absolute_expiry_time": (timestamp(10_000),),
    "creation_time": (timestamp(20_000),),
    "group_id": ("g1", "g2"),
    "group_sequence": (0, 3),
    "reply_to_group_id": ("rg",),
}
_VALUES: tuple[Any, ...] = (
    1, -1, uint(3), ulong(2**63 + 1), 2.5, True, False, "1", "abc", "", b"\xff", b"abc", None, timestamp(5),
    symbol("abc"), UUID(int=7), int32(3), ubyte(3), float32(2.5),
)  # fmt: skip
_NAMES = ("x", "y", "k 1", "AND", "flag", "x-y")
FIRST = Described(symbol("rabbitmq:stream-offset-spec"), "first")


def draw_message(random: Random, number: int) -> bytes:
    """Return a message whose application property ``id`` is the number."""
    codec = Codec()
    properties = {name: random.choice(values) for name, values in _PROPERTIES.items() if random.random() < 0.6}
    application = {name: random.choice(_VALUES) for name in _NAMES if random.random() < 0.7}
    sections = (
        Header(durable=True, priority=random.choice([None, 0, 4, 9])),
        Properties(**properties),
        Described(ulong(0x74), {**application, "id": number}),
        Described(ulong(0x75), b"x"),
    )
    return b"".join(map(codec.encode, sections))


# SQL

_FIELDS = (
    "x", "y", "flag", "[k 1]", "[AND]", "[x-y]", "a.x", "application_properties.y", "p.subject", "properties.to",
    "p.message_id", "p.user_id", "p.group_id", "p.group_sequence", "p.creation_time", "p.absolute_expiry_time",
    "h.priority", "header.priority", "p.content_type", "p.correlation_id", "nope", "h.durable", "p.nope", "and",
    "p.reply_to",
)  # fmt: skip
_LITERALS = (
    "1", "-1", "3", "2.5", "2.5E0", "1.0", "'abc'", '"abc"', "'it''s'", "TRUE", "FALSE", "0xFF", "0x616263", "'1'",
    "''", "0", "UTC()", "true", "9223372036854775809", "'ünï'", "4",
)  # fmt: skip
_PATTERNS = (
    "'a%'", "'%a'", "'a_b'", "'%'", "'_'", "'o%w'", "'50!%' ESCAPE '!'", "'%n%'", "'abc'", "'!' ESCAPE '!'",
    "'%b%' ESCAPE '%'", "'li%'", "'line_break'", "''",
)  # fmt: skip
_SLIPS = ("'", "(", ")", " ", "%", "AND", "\x01", ",", "[", "]", "\t")


def draw_sql(random: Random) -> str:
    """Return an expression, which may be wrong."""
    text = _condition(random, random.choice([0, 1, 1, 2, 2, 3]))
    if random.random() < 0.08:
        place = random.randrange(len(text) + 1)
        text = text[:place] + random.choice(_SLIPS) + text[place:]
    return text


def _operand(random: Random, depth: int) -> str:
    share = random.random()
    if depth <= 0 or share < 0.5:
        return random.choice(_FIELDS if random.random() < 0.6 else _LITERALS)
    if share < 0.75:
        return f"{_operand(random, depth - 1)} {random.choice('+-*/%')} {_operand(random, depth - 1)}"
    if share < 0.85:
        return f"({_operand(random, depth - 1)})"
    return (
        random.choice("+-") + random.choice(_FIELDS + _LITERALS)
        if share < 0.92
        else f"({_condition(random, depth - 1)})"
    )


def _condition(random: Random, depth: int) -> str:
    share, no = random.random() * (1 if depth > 0 else 0.6), random.choice(["", "NOT "])
    if share < 0.3:
        sign = random.choice(["=", "<>", "!=", "<", ">", "<=", ">="])
        return f"{_operand(random, depth)} {sign} {_operand(random, depth)}"
    if share < 0.38:
        return f"{random.choice(_FIELDS)} IS {no}NULL"
    if share < 0.48:
        return f"{_operand(random, depth - 2)} {no}LIKE {random.choice(_PATTERNS)}"
    if share < 0.56:
        items = ", ".join(_operand(random, depth - 2) for _ in range(random.randint(1, 3)))
        return f"{_operand(random, depth - 2)} {no}IN ({items})"
    if share < 0.6:
        return _operand(random, depth)
    if share < 0.7:
        return f"NOT {_condition(random, depth - 1)}"
    if share < 0.85:
        return f"{_condition(random, depth - 1)} {random.choice(['AND', 'OR'])} {_condition(random, depth - 1)}"
    return f"({_condition(random, depth - 1)})"


# Filter sets

_TEXTS = ("a", "&s:new", "&p:order", "&&a", "&x", "&s:", "abc", "&p:", "/queues/x", "line\nbreak", "'q'")
_WANTED: tuple[Any, ...] = (
    *_VALUES, *_TEXTS, b"guest", timestamp(20_000), symbol("gzip"), symbol("text/plain"), [1], {"a": 1}, 0, uint(0),
    ulong(9),
)  # fmt: skip
_FITTING: dict[str, tuple[Any, ...]] = {
    "message-id": (ulong(5), "m1", "&p:m", UUID(int=7), b"\x01\x02", None, b"m1"),
    "user-id": (b"guest", b"x"),
    "to": ("abc", "&s:x"),
    "subject": ("a", "&p:order", "&s:new", ""),
    "reply-to": ("r",),
    "correlation-id": (ulong(9), "c"),
    "content-type": (symbol("text/plain"),),
    "content-encoding": (symbol("gzip"),),
    "absolute-expiry-time": (timestamp(10_000),),
    "creation-time": (timestamp(20_000),),
    "group-id": ("g1", "&p:g"),
    "group-sequence": (uint(3), uint(0)),
    "reply-to-group-id": ("rg",),
}
_OFFSET = symbol("rabbitmq:stream-offset-spec")
_STREAMS: dict[symbol, tuple[Any, ...]] = {
    _OFFSET: ("first", "last", "next", uint(2), timestamp(0), symbol("first"), True),
    symbol("rabbitmq:stream-filter"): (["a"], "a", True, uint(7), ["b", 1]),
    symbol("rabbitmq:stream-match-unfiltered"): (True, False, "x"),
}


def draw_filters(random: Random) -> dict[Any, Any]:
    """Return the filter set of a source, some of which a server may not take."""
    names = random.sample([symbol("a"), symbol("b"), symbol("c"), *_STREAMS], random.choice([1, 1, 2, 2, 3]))
    drawn = {name: _stream_filter(random, name) if name in _STREAMS else _filter(random) for name in names}
    return {_OFFSET: FIRST, **drawn} if random.random() < 0.9 else drawn


def draw_sql_filter(random: Random) -> dict[Any, Any]:
    """Return a filter set with an SQL expression, from the first message on."""
    return {_OFFSET: FIRST, symbol("sql-filter"): Described(symbol("amqp:sql-filter"), draw_sql(random))}


def _stream_filter(random: Random, name: symbol) -> Any:
    value = random.choice(_STREAMS[name])
    return value if random.random() < 0.2 else Described(random.choice([name] * 9 + [symbol("zz")]), value)


def _filter(random: Random) -> Described:
    if random.random() < 0.5:
        names = random.sample(
            [*_FITTING, "nope"] if random.random() < 0.1 else list(_FITTING), random.choice([1, 1, 2, 3])
        )
        fields = {
            symbol(name): random.choice(_FITTING[name] if name in _FITTING and random.random() < 0.9 else _WANTED)
            for name in names
        }
        return Described(random.choice([symbol("amqp:properties-filter"), ulong(0x173)]), fields)
    kind = random.choice([symbol("amqp:application-properties-filter"), ulong(0x174)])
    return Described(kind, {name: random.choice(_WANTED) for name in random.sample(_NAMES, random.choice([1, 1, 2]))})
