"""Dead-letter queues of a running RabbitMQ: what waits there, and how to bring it back.

``how_to_peek`` says what looking into a queue does to it, ``peek`` looks, ``groups`` puts what was found into groups.
``plan`` says where each message would go and what would become of it (``fate``), what its later deaths would do
(``future``), and where else it may go (``instead``); ``delivery_limit`` says whether giving it back would kill it;
``bring_back`` does it, with a ``journal``, and ``audit`` tells what was done.
"""
