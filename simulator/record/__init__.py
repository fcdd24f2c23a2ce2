"""Records what an application does with a broker: what it declares, publishes and consumes, and what it loses.

The recording is a folder (``recording.py``). ``recorder.py`` makes it of a simulated node, ``live.py`` of a server.
``basis.py`` compares what lint finds with it, ``facts.py`` has what it says on its own, and ``seen_clients.py`` what
clients did, in place of what a project would state of them.
"""
