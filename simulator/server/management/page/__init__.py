"""The live page of a node at ``/``: losses first, then queues; each queue and each message on a page of its own.

It shows what the API would show to the same user, and changes nothing for clients. The
pages are whole without scripts; with the script, they follow what happens.
``pages`` has the addresses, ``frame`` what all have in common.
"""
