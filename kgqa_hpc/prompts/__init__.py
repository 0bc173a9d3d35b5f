"""Prompt modules: found by name, assembled, checked and rendered. The texts live in top-level prompts/."""
