"""Loading and assembling prompt modules; the texts themselves live in the top-level prompts/."""
