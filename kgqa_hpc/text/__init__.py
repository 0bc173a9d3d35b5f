"""Texts from outside and for people: made plain, read within bounds, told. Knows nothing but errors."""
