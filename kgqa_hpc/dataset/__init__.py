"""From results to a published dataset: merge, accounting, filters, export."""
