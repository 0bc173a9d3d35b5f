"""What a run has done, how fast it goes, and what it will take."""
