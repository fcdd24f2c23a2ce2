"""Dead-letter queues of a running RabbitMQ: what waits there, and how to bring it back.

``how_to_peek`` says what reading a queue does to it, ``peek`` reads it, ``groups`` groups the messages.
``plan`` says where each message would go and what would happen to it (``fate``), what its later deaths would do
(``future``), and where else it may go (``instead``); ``delivery_limit`` says whether giving it back would kill it;
``bring_back`` does it, with a ``journal``, and ``audit`` lists what was done.
"""
