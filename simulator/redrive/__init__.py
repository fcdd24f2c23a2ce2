"""Dead-letter queues of a running RabbitMQ: what waits there, and how to bring it back.

``how_to_peek`` says what reading a queue does to it, ``peek`` reads it, ``groups`` groups the messages.
``plan`` says where each message would go and where else it may go, ``prediction`` what would happen to it there,
``future`` what its later deaths would do; ``bring_back`` says whether giving it back would kill it, and brings it
back with a ``journal``, which also lists what was done.
"""
