"""What figures and pages are made with: places for the nodes of a graph, and self-contained web pages."""
