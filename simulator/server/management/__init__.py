"""RabbitMQ's management HTTP API for a node.

``application(node)`` is the ASGI application. Three things in it are our own: the clock
(``clock``), the histories of messages (``histories``) and the page at ``/`` (``page``).
"""

from __future__ import annotations

from simulator.server.management.application import Application as application

__all__ = ["application"]
