"""Decides whether a message fits the pattern of a rule.

``?`` stands for one character, which is no trailing blank, ``*`` for any number of them.
There is no escape. Case counts; trailing blanks do not.

Source: IBM MQ's documentation of patterns.
"""

from __future__ import annotations

import functools
import re

from simulator.systems.ibm_mq.message import DeadMessage
from simulator.systems.ibm_mq.mqdlh import Mqdlh
from simulator.systems.ibm_mq.rules_table import ANY, Pattern


def fits(pattern: Pattern, message: DeadMessage, header: Mqdlh) -> bool:
    """Return whether every keyword of the pattern fits the message or its MQDLH."""
    texts = (
        (pattern.applidat, message.appl_identity_data),
        (pattern.applname, message.put_appl_name),
        (pattern.destq, header.dest_q_name),
        (pattern.destqm, header.dest_q_mgr_name),
        (pattern.format, header.format),  # of the message as it was sent; its MQMD says that an MQDLH follows
        (pattern.replyq, message.reply_to_q),
        (pattern.replyqm, message.reply_to_q_mgr),
        (pattern.userid, message.user_identifier),
    )
    numbers = (
        (pattern.appltype, message.put_appl_type),
        (pattern.feedback, message.feedback),
        (pattern.msgtype, message.msg_type),
        (pattern.persist, message.persistence),
        (pattern.reason, header.reason),
    )
    return all(wanted is None or wanted == number for wanted, number in numbers) and all(
        text_fits(wanted, text) for wanted, text in texts
    )


def text_fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern with wildcards."""
    return pattern == ANY or _compiled(pattern.rstrip(" ")).fullmatch(text.rstrip(" ")) is not None


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile the pattern to a regular expression.

    The text between two ``*`` is matched once, as early as possible: backtracking would find
    nothing more, and would take exponential time.
    """
    first, *rest = (_literal(part) for part in pattern.split("*"))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in part)
