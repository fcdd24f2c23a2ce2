"""The operations with which clients, operators and time change the broker: one file for each subject."""
