"""Workers: leasing shards, feeding engines, stopping in time. Knows no biology."""
