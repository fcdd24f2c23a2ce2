"""The command ``dlx``: a file per subject, each imported when a command of it is called."""
