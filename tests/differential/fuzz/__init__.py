"""Random scripts, played against a real server and the simulator of its release.

    python -m tests.differential.fuzz --release 4.3 --seed 17 --cases 1

``scripts`` draws a topology (``topologies``) and what happens to it (``messages`` has the publishes), each case from
a seed of its own; ``cases`` plays and judges; ``smaller`` takes out of a script what its divergence does not need;
``report`` shows what is left.
"""
