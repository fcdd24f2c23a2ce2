"""RabbitMQ's management HTTP API for a node.

``application.Application(node)`` is the ASGI application. Two things in it are our own: the clock, the faults and the
histories of messages (``simulation``), and the page at ``/`` (``page``).
"""
