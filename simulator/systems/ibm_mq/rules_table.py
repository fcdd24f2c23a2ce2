"""A rules table as values: the control data, and rules with a pattern and an action."""

from __future__ import annotations

from enum import StrEnum

import msgspec

ANY = "*"
DEST_Q, REPLY_Q = "&DESTQ", "&REPLYQ"
DEST_Q_MGR, REPLY_Q_MGR = "&DESTQM", "&REPLYQM"


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
