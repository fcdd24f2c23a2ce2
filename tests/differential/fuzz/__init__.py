"""Random scripts, played against a real server and the simulator of its release.

    python -m tests.differential.fuzz --release 4.3 --seed 17 --cases 1

``scripts`` draws a topology and what happens to it, each case from a seed of its own. Each subject has a module of
strategies:

* ``topologies`` has queues, exchanges, bindings and policies, ``names`` what they are called;
* ``messages`` has properties and headers, ``values`` the values of tables, ``claimed_deaths`` made-up histories;
* ``held`` has scripts of their own, about what at-least-once dead-lettering holds (``--kind held``);
* ``faults`` has what a server refuses, ``users`` a user who may not do everything, ``management`` the HTTP API.

``cases`` plays and judges; ``smaller`` takes out of a script what its divergence does not need; ``report`` shows what
is left; ``known`` lists the differences that are known and stay.
"""
