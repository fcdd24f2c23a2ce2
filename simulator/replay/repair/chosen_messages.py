"""Which messages a repair looks at: those with deliveries that are not as predicted, and some of the others.

The others tell when definitions changed, and where publishes go. Of too many it takes a sample,
which is the same on every engine.
"""

from __future__ import annotations

from simulator.events import Event
from simulator.replay.tables import Table, rows, select
from simulator.replay.unchecked import IS_LACKING

BAD_MAX = 100_000
"""Messages with such deliveries that are looked at."""
OTHERS_MAX = 20_000
"""Other messages that come along."""
_MESSAGES = f"""
    SELECT vhost, message,
        coalesce(
            bool_or(event = '{Event.DELIVERED.value}' AND (verdict IN ('differ', 'unexplained') OR {IS_LACKING})), false
        ) AS bad
    FROM {{replayed}}
    GROUP BY 1, 2"""
_SOME = """
    SELECT vhost, message FROM (
        SELECT vhost, message FROM {messages} WHERE %s ORDER BY md5(concat(vhost, '\\n', message)) LIMIT %d
    )"""
_CHOSEN = f"{_SOME % ('bad', BAD_MAX)} UNION ALL {_SOME % ('NOT bad', OTHERS_MAX)}"


def chosen_messages(replayed: Table) -> tuple[Table, int]:
    """Return the messages to look at, and how many others have deliveries that are not as predicted."""
    messages = select(_MESSAGES, replayed=replayed)
    ((bad,),) = (row.values() for row in rows("SELECT count_if(bad) AS bad FROM {messages}", messages=messages))
    return select(_CHOSEN, messages=messages), max(0, bad - BAD_MAX)
