"""One hash for each thing that a user can see: equal before and after a change that shall not be noticed."""
