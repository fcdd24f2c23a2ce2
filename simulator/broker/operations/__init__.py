"""What clients, operators and time do to the broker: one file for each subject."""
