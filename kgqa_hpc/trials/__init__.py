"""What is made to learn something: studies, an engine's speed, a few items before a run, an item asked again."""
