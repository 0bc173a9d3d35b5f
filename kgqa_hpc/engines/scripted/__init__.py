"""A stand-in for a model, and for the GPU it would run on: tests, rehearsals, simulations."""
