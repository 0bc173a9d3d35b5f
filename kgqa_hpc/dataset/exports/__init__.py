"""Export formats of a dataset, one file per format.

A format has a name and `write(source, folder)`; its docstring is its help.
"""

from kgqa_hpc.registry import Registry

EXPORTS = Registry(
    "exports",
    "export format",
    {
        "messages": "kgqa_hpc.dataset.exports.training:Messages",
        "alpaca": "kgqa_hpc.dataset.exports.training:Alpaca",
        "sharegpt": "kgqa_hpc.dataset.exports.training:ShareGpt",
        "csv": "kgqa_hpc.dataset.exports.tables:CsvTable",
        "triples": "kgqa_hpc.dataset.exports.tables:Triples",
        "biographletqa": "kgqa_hpc.dataset.exports.biographletqa:BioGraphletQA",
        "standard": "kgqa_hpc.dataset.exports.families:Standard",
        "choices": "kgqa_hpc.dataset.exports.families:Choices",
        "chain-of-thought": "kgqa_hpc.dataset.exports.families:ChainOfThought",
        "text-to-query": "kgqa_hpc.dataset.exports.families:TextToQuery",
        "lm-eval": "kgqa_hpc.dataset.exports.harnesses:LmEval",
        "lighteval": "kgqa_hpc.dataset.exports.harnesses:LightEval",
    },
)
