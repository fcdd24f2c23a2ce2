"""What a way must fit besides its headers: counts, lengths and times; and the explanation of one delivery."""
