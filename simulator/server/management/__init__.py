"""RabbitMQ's management HTTP API for a node.

``application(node)`` is the ASGI application. Two things in it are our own: the clock,
the faults and the histories of messages (``simulation``), and the page at ``/`` (``page``).
"""

from __future__ import annotations

from simulator.server.management.application import Application as application

__all__ = ["application"]
