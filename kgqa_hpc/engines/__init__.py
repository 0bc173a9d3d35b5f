"""Engines, which answer prompts: their registry (registry.py), settings (config.py) and processes (process.py)."""
