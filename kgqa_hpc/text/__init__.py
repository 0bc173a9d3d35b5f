"""Bounded readers of untrusted text, its cleaning, and formatters of text for people. Imports only errors.py."""
