"""Tests of queues as data: cases of definitions, steps and what is expected, run on the simulator or on a server."""
