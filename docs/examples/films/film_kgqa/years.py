"""Step: the years that an answer names."""

import re

from kgqa_hpc.columns import Column
from kgqa_hpc.steps.step import Done, Reject, Step


class Years(Step):
    """Collects the years that the answer names, and rejects one that names none."""

    name = "years"
    needs = ("answer",)
    columns = (Column("years", ["int64"], "Years in the answer."),)

    def compute(self, item):
        years = [int(year) for year in re.findall(r"\b(?:18|19|20)\d\d\b", item.output["answer"])]
        return Done(years=years) if years else Reject(f"{self.label}: no year")
