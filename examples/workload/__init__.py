"""Drive a real RabbitMQ through every way a message can die, and keep what its tracing plugin recorded.

``scenarios`` is what is played, ``stage`` and ``consumers`` what it is played with;
``recording`` keeps the log, ``summary`` says what is in it.
"""
