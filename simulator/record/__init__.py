"""Records what an application does with a broker: what it declares, publishes and consumes, and what it loses.

The recording is a folder (``recording.py``). ``recorder.py`` makes it of a simulated node, ``live.py`` of a server.
"""
