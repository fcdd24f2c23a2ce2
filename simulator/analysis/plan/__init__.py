"""How a server comes from one topology to another: what changes, what it refuses, in which order, what is lost.

``changes`` has the differences as data, ``refusals`` asks a broker what it says to them, ``steps`` puts them in an
order, ``play`` plays that with messages in the queues, and ``planning`` makes the answer.
"""
