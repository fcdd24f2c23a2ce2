"""Promises about messages that a topology keeps or breaks, and invariants that every broker keeps."""
