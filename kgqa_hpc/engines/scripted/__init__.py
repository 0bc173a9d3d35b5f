"""Scripted answers in place of a model, and a model of a GPU's speed: for tests, rehearsals, simulations."""
