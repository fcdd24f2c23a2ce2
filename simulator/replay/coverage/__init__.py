"""Finds the rules that a log has exercised: without these, a log that agrees may have tested little.

``catalogue`` lists the rules that a trace can show, ``shown`` reads them off an explained delivery, with the rows of
the release table that decided it, and ``totals`` adds them up.
"""
