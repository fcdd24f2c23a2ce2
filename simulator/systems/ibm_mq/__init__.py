"""IBM MQ's dead-letter queue handler in virtual time: its rules table, and what it does with a message.

``parser`` and ``printer`` are the language of the table, ``handling`` says which rule a
message gets and what becomes of it, ``mqdlh`` is the header in front of it.
"""

from __future__ import annotations

from simulator.systems.ibm_mq.simulation import simulate as simulate
