"""Export formats of a dataset.

A format has a name and `write(source, folder)`; its docstring is its help.
"""

from kgqa_hpc.registry import Registry

EXPORTS = Registry(
    "exports",
    "export format",
    {
        "messages": "kgqa_hpc.dataset.exports.formats:messages",
        "alpaca": "kgqa_hpc.dataset.exports.formats:alpaca",
        "sharegpt": "kgqa_hpc.dataset.exports.formats:sharegpt",
        "csv": "kgqa_hpc.dataset.exports.formats:CsvTable",
        "triples": "kgqa_hpc.dataset.exports.formats:Triples",
        "biographletqa": "kgqa_hpc.dataset.exports.items:BioGraphletQA",
        "standard": "kgqa_hpc.dataset.exports.formats:standard",
        "choices": "kgqa_hpc.dataset.exports.formats:choices",
        "chain-of-thought": "kgqa_hpc.dataset.exports.formats:chain_of_thought",
        "text-to-query": "kgqa_hpc.dataset.exports.formats:text_to_query",
        "lm-eval": "kgqa_hpc.dataset.exports.formats:LmEval",
        "lighteval": "kgqa_hpc.dataset.exports.formats:LightEval",
    },
)
