"""The mutation check: deliberate faults in the rules, each of which the tests must catch."""
