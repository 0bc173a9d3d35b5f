"""Experiments: studies, the speed of an engine, a preview of a few items, a replay of one item."""
