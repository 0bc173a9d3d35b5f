"""Hydration: names for nodes that have only identifiers, from tables and web services, by a recipe."""
