"""The rules of lint by group: each finds what it is about, gives it its severity, and has its document beside it."""
