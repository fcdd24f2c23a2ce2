"""AMQP 1.0 in front of a broker, as RabbitMQ 4 speaks it: the protocol without I/O. Needs the extra ``amqp10``.

Bytes become frames in ``connection``, a session's frames commands of the broker in ``session`` (one session is one
channel of the broker), and messages change their protocol in ``messages``. Python-qpid-proton encodes and decodes
types (``frames``). Its engine is not used: it decides by itself when to send a flow, cannot set the properties of
one, and shows neither the windows nor the errors that RabbitMQ answers with.
"""
