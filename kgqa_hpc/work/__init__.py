"""The worker: leases shards, sends items through their steps, commits results."""
