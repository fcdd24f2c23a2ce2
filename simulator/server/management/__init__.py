"""RabbitMQ's management HTTP API over a node.

``application(node)`` is the ASGI application. What RabbitMQ has not: the clock
(``clock``), the lives of messages (``lives``) and the page at ``/``.
"""

from __future__ import annotations

from simulator.server.management.app import Application as application

__all__ = ["application"]
