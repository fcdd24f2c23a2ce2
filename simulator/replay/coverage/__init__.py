"""Finds the rules that a log has exercised: without these, a log that agrees may have tested little.

``catalogue`` lists the rules that a trace can show, ``paths`` reads them off an explained delivery,
``release_rows`` finds the rows of the release table that decided one, and ``totals`` adds them up.
"""
