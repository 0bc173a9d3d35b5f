"""Bounded readers of untrusted text, and formatters of text for people. Imports no other module than errors."""
