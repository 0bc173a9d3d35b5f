"""Engines, which answer prompts: their interface (engine.py), registry (registry.py) and processes (process.py)."""
