"""Export formats of a dataset, one file per format.

A format has a name and `write(source, folder)`; its docstring is its help.
"""

from kgqa_hpc.registry import Registry

EXPORTS = Registry(
    "exports",
    "export format",
    {
        "messages": "kgqa_hpc.dataset.exports.pairs:Messages",
        "alpaca": "kgqa_hpc.dataset.exports.pairs:Alpaca",
        "sharegpt": "kgqa_hpc.dataset.exports.pairs:ShareGpt",
        "csv": "kgqa_hpc.dataset.exports.tables:CsvTable",
        "triples": "kgqa_hpc.dataset.exports.tables:Triples",
        "biographletqa": "kgqa_hpc.dataset.exports.biographletqa:BioGraphletQA",
        "standard": "kgqa_hpc.dataset.exports.pairs:Standard",
        "choices": "kgqa_hpc.dataset.exports.pairs:Choices",
        "chain-of-thought": "kgqa_hpc.dataset.exports.pairs:ChainOfThought",
        "text-to-query": "kgqa_hpc.dataset.exports.pairs:TextToQuery",
        "lm-eval": "kgqa_hpc.dataset.exports.harnesses:LmEval",
        "lighteval": "kgqa_hpc.dataset.exports.harnesses:LightEval",
    },
)
