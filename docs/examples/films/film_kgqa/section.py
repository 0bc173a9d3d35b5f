"""Section of the report: the years that answers name."""

import kgqa_hpc


@kgqa_hpc.section
def years_named(dataset):
    """Years that answers name."""
    years = sorted({year for record in dataset.records() for year in record.get("years", ())})
    return f"<p>{', '.join(map(str, years))}</p>" if years else ""
