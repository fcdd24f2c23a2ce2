"""The simulator and real servers, told the same and compared in everything that a client sees."""
