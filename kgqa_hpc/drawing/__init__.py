"""Parts of figures and pages: layouts of small graphs, and self-contained web pages."""
