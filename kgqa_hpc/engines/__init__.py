"""Engines answer prompts: registered (registry.py), configured (config.py), each in a process of its own."""
