"""The configuration of a run: one YAML file, checked completely before anything starts."""

from kgqa_hpc.config.files import load_config, plain_config
from kgqa_hpc.config.run_config import RunConfig, RuntimeConfig, decision_of, parse_config
from kgqa_hpc.config.sections import PassConfig, PromptConfig
from kgqa_hpc.kg.settings import GraphConfig

__all__ = [
    "GraphConfig",
    "PassConfig",
    "PromptConfig",
    "RunConfig",
    "RuntimeConfig",
    "decision_of",
    "load_config",
    "parse_config",
    "plain_config",
]
