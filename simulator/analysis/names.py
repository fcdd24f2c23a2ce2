"""What a name tells: that messages wait in a queue, or that it is for dead letters. Only whole words count."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_WAITING = frozenset({"delay", "delays", "delayed", "wait", "waiting", "retry", "retries", "backoff", "later"})
_RETRIES = frozenset({"retry", "retries", "requeue", "backoff", "wait", "waiting"})
_DEAD = frozenset({"dead", "dlx", "dle", "dlq", "deadletter", "deadletters"})
_BESIDE_DEAD = frozenset({"letter", "letters", "lettered", "queue", "exchange", "ex", "q"})


def words(name: str) -> list[str]:
    """Return the words of a name in small letters; ``orders.deadLetter-2`` has orders, dead, letter and 2."""
    return [word.lower() for word in _WORD.findall(name)]


def is_named_for_waiting(name: str) -> bool:
    """Tell whether people call a queue like that in which messages wait for their time."""
    return not _WAITING.isdisjoint(words(name)) or "back off" in " ".join(words(name))


def is_named_for_retries(name: str) -> bool:
    """Tell whether people call a queue like that in which failed messages wait for their next attempt."""
    return not _RETRIES.isdisjoint(words(name))


def is_named_for_dead_letters(name: str) -> bool:
    """Tell whether people call an exchange or a queue like that which takes dead letters."""
    return not _DEAD.isdisjoint(words(name))


def stem(name: str) -> tuple[str, ...]:
    """Return the words of a name without those for dead letters: ``orders.dlq`` is for those of ``orders``."""
    aside = _DEAD | _BESIDE_DEAD if is_named_for_dead_letters(name) else _BESIDE_DEAD
    return tuple(word for word in words(name) if word not in aside)


def is_made_up(name: str) -> bool:
    """Tell whether a server made up the name; the next queue of that client has another one."""
    return name.startswith("amq.")


def is_pattern(key: str) -> bool:
    """Tell whether the binding key of a topic exchange takes more than one routing key."""
    return not {"*", "#"}.isdisjoint(key.split("."))
