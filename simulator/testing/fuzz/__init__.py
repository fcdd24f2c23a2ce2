"""The search for a history that breaks a property, and the report on what it found."""
