"""IBM MQ in virtual time: the dead-letter queue handler with its rules table, and queues whose consumer backs out.

``parser`` and ``printer`` are the language of the table, ``handler`` says when a message is visited, which rule it gets
and what becomes of it, ``mqdlh`` is the header in front of it. ``consumer`` counts backouts, and ``unloaded_queue``
reads what ``dmpmqmsg`` wrote.
"""

from __future__ import annotations

from simulator.systems.ibm_mq.simulation import simulate as simulate
