"""AMQP 0-9-1 in front of a broker: the protocol without I/O (``connection``), and with sockets (``server``)."""
