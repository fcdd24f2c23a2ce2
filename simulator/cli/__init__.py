"""The command ``dlx``: one file per command, each imported when it is called."""
