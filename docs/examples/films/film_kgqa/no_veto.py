"""Decision rule: one judge decides."""

import kgqa_hpc


@kgqa_hpc.rule
def no_veto(objections, verdicts, *, judge):
    """Accept unless one judge objects, whatever the others say."""
    return objections[judge] is None
