"""From results to a published dataset: merge, accounting, filters, export."""

import os

# Read by pyarrow when it is first imported. Its own pool gives the memory of every row group back and asks for it anew:
# a quarter of the processor time of writing, and 50 MB more at the peak (20,480 records of tools/bench_merge.py).
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
