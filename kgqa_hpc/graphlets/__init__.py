"""The 29 connected shapes on 3-5 nodes: exact counts and uniform samples."""
