"""What would have happened to the messages of a log under other settings, or another release."""
