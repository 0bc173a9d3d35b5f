"""What is done to one item: generate, judge, ...: requests out, outcomes in. Knows no process and no disk."""
