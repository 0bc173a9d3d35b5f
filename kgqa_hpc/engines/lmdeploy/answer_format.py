"""The `response_format` that makes LMDeploy follow a schema, and its compilation before the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgqa_hpc.engines.grammar import structural_tag
from kgqa_hpc.engines.schema import as_sent
from kgqa_hpc.engines.thinking import Thought
from kgqa_hpc.errors import EngineConfigError


def response_format(schema: Mapping[str, Any], thought: Thought | None = None) -> dict[str, Any]:
    """LMDeploy's `response_format` for a schema: JSON at once, or a thought and then JSON.

    The format holds the project's own grammar (engines/grammar.py); a schema that the grammar cannot express is
    passed on unchanged, for LMDeploy to compile or refuse.
    """
    before: tuple[dict[str, Any], ...] = ()
    if thought is not None:
        before = (
            {"type": "tag", "begin": thought.begin, "content": {"type": "any_text"}, "end": thought.end},
            {"type": "const_string", "value": thought.then},
        )
    try:
        return structural_tag(schema, before)
    except EngineConfigError:
        plain = as_sent(schema)
    if not before:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": plain}}
    elements = [*before, {"type": "json_schema", "json_schema": plain}]
    return {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}


def compile_all(formats: list[dict[str, Any]], compiler: Any) -> None:
    """Compile every format with the engine's own compiler. Raises EngineConfigError for the first it refuses.

    LMDeploy itself would answer such a request without any schema and only log it.
    """
    from lmdeploy._guided_decoding import compile_response_format

    for form in formats:
        try:
            compile_response_format(compiler, form)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the user hears it
            raise EngineConfigError(
                f"schema: LMDeploy cannot compile it: {problem}",
                "simplify the prompt's schema, or set engine.structured: none",
            ) from None


def compiler_for(pipe: Any) -> Any:
    """The compiler that will serve the requests: TurboMind's own, else xgrammar with the same tokenizer.

    Raises EngineConfigError for a tokenizer that no grammar can be made for; LMDeploy itself would go on
    without any.
    """
    engine = pipe.async_engine
    try:
        compiler = getattr(engine.engine, "grammar_compiler", None)
        if compiler is not None:
            return compiler
        import xgrammar

        tokenizer = engine.tokenizer.model.model
        size = max(len(tokenizer), getattr(engine.hf_cfg, "vocab_size", 0) or 0)
        return xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size))
    except Exception as problem:  # noqa: BLE001 - whatever it is, the user hears it
        raise EngineConfigError(
            f"LMDeploy cannot guide this model's answers: {type(problem).__name__}: {problem}",
            "set engine.structured: none; the parser checks the answers",
        ) from None
