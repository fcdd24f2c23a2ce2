"""Tests of queues as data: cases of definitions, steps and expectations, run on the simulator or on a server."""
