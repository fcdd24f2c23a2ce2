"""A rules table as values: the control data, rules with a pattern and an action, and problems, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

ANY = "*"
DEST_Q, REPLY_Q = "&DESTQ", "&REPLYQ"
DEST_Q_MGR, REPLY_Q_MGR = "&DESTQM", "&REPLYQM"
USUAL_INPUTQ = "SYSTEM.DEAD.LETTER.QUEUE"
"""What a queue manager's dead-letter queue is usually called."""


class Action(StrEnum):
    """The actions that a rule can take on a message."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FWD = "FWD"


class PutAuthority(StrEnum):
    """Whose authority puts a message: the handler's, or that of the user in the message's context."""

    DEF = "DEF"
    CTX = "CTX"


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The control data of a table.

    Attributes:
        inputq: the dead-letter queue; empty: the one the queue manager names.
        inputqm: the queue manager; empty: the default one.
        retryint_s: seconds between attempts.
        wait_s: the idle seconds after which the handler ends; 0 is WAIT(NO), ``None`` is WAIT(YES): never.
    """

    inputq: str = ""
    inputqm: str = ""
    retryint_s: int = 60
    wait_s: int | None = None


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a rule on a message; the fields are the keywords of the table.

    Texts hold the wildcards ``?`` and ``*`` and no trailing blanks; the empty text fits a
    blank field only. A number that is ``None`` fits any.
    """

    applidat: str = ANY
    applname: str = ANY
    appltype: int | None = None
    destq: str = ANY
    destqm: str = ANY
    feedback: int | None = None
    format: str = ANY
    msgtype: int | None = None
    persist: int | None = None
    reason: int | None = None
    replyq: str = ANY
    replyqm: str = ANY
    userid: str = ANY


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        pattern: which messages it is for.
        action: what it does with them.
        retry: how often it tries, 1 to 999,999,999.
        fwdq: where FWD puts a message: a queue, ``&DESTQ`` or ``&REPLYQ``; empty for other actions.
        fwdqm: on which queue manager: a name, ``&DESTQM`` or ``&REPLYQM``; empty: the local one.
        header: whether FWD leaves the MQDLH on the message.
        putaut: whose authority puts it.
    """

    pattern: Pattern = Pattern()
    action: Action
    retry: int = 1
    fwdq: str = ""
    fwdqm: str = ""
    header: bool = True
    putaut: PutAuthority = PutAuthority.DEF

    @property
    def is_catch_all(self) -> bool:
        """Whether every message fits it."""
        return self.pattern == Pattern()


class RulesTable(msgspec.Struct, frozen=True, kw_only=True):
    """A whole table: its control data, and at least one rule."""

    control: Control = Control()
    rules: tuple[Rule, ...]


# What the product's messages say with these numbers.
NO_INPUT = "AMQ8750"
VALUE_TOO_LONG = "AMQ8752"
KEYWORD_REPEATED = "AMQ8753"
OUT_OF_RANGE = "AMQ8757"
INVALID_COMBINATION = "AMQ8759"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, or likely a mistake, in a rules table.

    Attributes:
        line: its line in the file, from 1.
        column: its column in that line, from 1.
        text: what is wrong, and what is allowed.
        code: the number of the product's message for it; a plain error of syntax has none.
    """

    line: int
    column: int
    text: str
    code: str | None = None

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        return f"line {self.line}, column {self.column}: {self.text}{code}"


class ParsedTable(msgspec.Struct, frozen=True):
    """A table, and what its text says beyond it.

    Attributes:
        table: what the table means.
        rule_lines: the line in which each rule begins, from 1.
        warnings: what is allowed and likely a mistake, such as a table without a catch-all rule.
    """

    table: RulesTable
    rule_lines: tuple[int, ...]
    warnings: tuple[Problem, ...] = ()


class RulesTableError(ValueError):
    """A rules table that the handler refuses. Its text has one line for each problem.

    Attributes:
        problems: all that is wrong, from the top of the table down.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
