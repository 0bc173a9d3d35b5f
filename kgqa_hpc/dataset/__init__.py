"""From results to a published dataset: merge, accounting, filters, export."""

import os

# pyarrow reads this variable at its first import. Its own memory pool returns the memory of each row group:
# that takes a quarter of the processor time of writing and 50 MB more (20,480 records of tools/bench_merge.py).
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
