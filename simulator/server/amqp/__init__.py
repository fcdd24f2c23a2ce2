"""AMQP 0-9-1 over a broker: the protocol without I/O (``connection``), and the server that gives it sockets."""
