"""RabbitMQ's management HTTP API for a node.

``application.Application(node)`` is the ASGI application. Three things in it are our own: the clock
(``clock``), the histories of messages (``histories``) and the page at ``/`` (``page``).
"""
