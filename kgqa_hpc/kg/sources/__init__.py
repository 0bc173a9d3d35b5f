"""Knowledge graphs that come with a Python package instead of the user's own files."""
