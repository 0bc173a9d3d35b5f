"""Export formats of a dataset.

A format has a name and `write(source, folder)`; its docstring is its help.
"""

from kgqa_hpc.registry import Registry

EXPORTS = Registry(
    "exports",
    "export format",
    {
        "messages": "kgqa_hpc.dataset.exports.formats:Messages",
        "alpaca": "kgqa_hpc.dataset.exports.formats:Alpaca",
        "sharegpt": "kgqa_hpc.dataset.exports.formats:ShareGpt",
        "csv": "kgqa_hpc.dataset.exports.formats:CsvTable",
        "triples": "kgqa_hpc.dataset.exports.formats:Triples",
        "biographletqa": "kgqa_hpc.dataset.exports.items:BioGraphletQA",
        "standard": "kgqa_hpc.dataset.exports.formats:Standard",
        "choices": "kgqa_hpc.dataset.exports.formats:Choices",
        "chain-of-thought": "kgqa_hpc.dataset.exports.formats:ChainOfThought",
        "text-to-query": "kgqa_hpc.dataset.exports.formats:TextToQuery",
        "lm-eval": "kgqa_hpc.dataset.exports.formats:LmEval",
        "lighteval": "kgqa_hpc.dataset.exports.formats:LightEval",
    },
)
