"""What has state and time: captures, replay and the command line. Built on the rules in ``dlx``."""
