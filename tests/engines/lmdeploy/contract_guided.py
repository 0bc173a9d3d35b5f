"""Answers are guided by LMDeploy's own compiler, or are errors. Run by test_engine.py in LMDeploy's environment."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import xgrammar
from lmdeploy import GenerationConfig
from lmdeploy._guided_decoding import compile_response_format
from lmdeploy_fake import Start, request
from transformers import PreTrainedTokenizerFast

from kgqa_hpc.engines.grammar import ebnf
from kgqa_hpc.engines.lmdeploy import compiler_for, response_format
from kgqa_hpc.engines.models import THOUGHTS, sampling_of
from kgqa_hpc.errors import EngineConfigError
from tests.by_path import load
from tests.engines.asking import BOOLEAN, an_object
from tests.engines.asking import answers_of as ask

LONG = an_object(text={"type": "string", "minLength": 20, "maxLength": 900}, ok=BOOLEAN)


def test_the_schema_reaches_the_engine_without_lengths_and_is_compiled_at_first(start: Start) -> None:
    engine, native = start()
    engine.preflight([LONG])
    ask(engine, [request("r", schema=LONG)])
    form = native.calls[-1].response_format
    assert form["type"] == "structural_tag"
    assert form["format"] == {"type": "grammar", "grammar": ebnf(LONG, bounded=False)}
    with pytest.raises(EngineConfigError, match="no grammar for it"):
        engine.preflight([{"type": "nonsense"}])
    bad = ask(engine, [request("bad", schema={"type": "nonsense"})])["bad"]
    assert "no grammar for it" in (bad.error or "")


def test_the_form_of_a_text_is_kept_by_lmdeploys_compiler(start: Start) -> None:
    """Also for quotes, line breaks and other alphabets, which the pattern as it stands would forbid or break."""
    forms = {"question": "^(Which|In which) [^?]*[?]$", "answer": "^(.|\\n)*[.!]$"}
    fields = {name: {"type": "string", "maxLength": 90, "pattern": form} for name, form in forms.items()}
    schema = an_object(**fields)
    engine, native = start()
    engine.preflight([schema])
    ask(engine, [request("r", schema=schema)])
    compiled = compile_response_format(compiler_for(engine._pipe), native.calls[-1].response_format)

    def takes(question: str, answer: str) -> bool:
        matcher = xgrammar.GrammarMatcher(compiled)
        said = json.dumps({"question": question, "answer": answer}, ensure_ascii=False, separators=(",", ":"))
        return bool(matcher.accept_string(said)) and bool(matcher.is_completed() or matcher.is_terminated())

    assert takes("Which gene?", "ATM.")
    assert takes('In which "cell"\nis \u03b2 made?', 'In \u6f22 "cells".\nOf the liver!')
    assert takes("Which \\ gene\t?", "A \\ in a line.")
    for question in ("Which gene", "Name the gene?", "Which gene? ATM", "Which gene?\u0007"):
        assert not takes(question, "ATM."), question
    for answer in ("ATM", "ATM?", 'It is "ATM."', ""):
        assert not takes("Which gene?", answer), answer


def test_every_shipped_schema_takes_quotes_newlines_and_other_alphabets(start: Start) -> None:
    bench = load(Path(__file__).parents[3] / "tools" / "bench_grammar.py")
    compiler = compiler_for(start()[0]._pipe)
    schemas = bench._schemas([])
    assert len(schemas) > 40
    for name, schema in schemas:
        matcher = xgrammar.GrammarMatcher(compile_response_format(compiler, response_format(schema)))
        text = bench._example(schema)
        assert matcher.accept_string(text), name
        assert matcher.is_completed() or matcher.is_terminated(), name
        matcher.reset()
        assert not matcher.accept_string(text.replace(":", ": ", 1)), f"{name}: white space"


def test_preflight_compiles_with_the_models_own_tokenizer_or_turbominds_own_compiler(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, native = start()
    compiled: list[Any] = []

    class Compiler:
        def compile_structural_tag(self, source: str) -> None:
            compiled.append(source)
            raise RuntimeError("TurboMind's own compiler was asked")

    native.grammar_compiler = Compiler()  # as TurboMind has it
    with pytest.raises(EngineConfigError, match="own compiler was asked"):
        engine.preflight([LONG])
    assert "{20,900}" not in compiled[0]


def test_a_schema_that_lmdeploy_drops_is_an_error_not_an_unguided_answer(start: Start) -> None:
    engine, native = start()
    native.drops_schemas = True  # as turbomind.py does after a ValueError, with a warning only
    answer = ask(engine, [request("r", schema=LONG)])["r"]
    assert answer.finish == "error"
    assert "dropped the schema" in (answer.error or "")


def test_turbominds_own_code_drops_a_schema_as_our_stand_in_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above rests on: TurboMindInstance itself, with only the compiled module beneath it empty."""
    native = ModuleType("lmdeploy.turbomind._turbomind")
    native.__getattr__ = lambda name: type(name, (), {})  # type: ignore[method-assign]
    monkeypatch.setattr("lmdeploy.turbomind._tm", native)
    monkeypatch.setitem(sys.modules, "lmdeploy.turbomind._turbomind", native)
    for loaded in ("turbomind", "tokenizer_info"):
        monkeypatch.delitem(sys.modules, f"lmdeploy.turbomind.{loaded}", raising=False)
    from lmdeploy.turbomind.turbomind import TurboMindInstance

    class Reached(Exception):
        """The native engine was asked."""

    def forward(*arguments: Any) -> None:
        raise Reached

    class Compiler:
        def compile_json_schema(self, source: str) -> None:
            raise ValueError("a schema that it does not like")

    instance = object.__new__(TurboMindInstance)
    instance.tm_model = SimpleNamespace(
        grammar_compiler=Compiler(),
        mm_input_converter=lambda multimodal: None,
        engine_config=SimpleNamespace(enable_metrics=False),
    )
    instance._model_inst = SimpleNamespace(forward=forward, set_grammar=None)
    monkeypatch.setattr("lmdeploy.turbomind.turbomind._np_dict_to_tm_dict", dict)
    monkeypatch.setattr(native, "SessionParam", lambda **kwargs: None, raising=False)
    asked = GenerationConfig(response_format={"type": "json_schema", "json_schema": {"schema": LONG}})

    async def run() -> None:
        async for _ in instance.async_stream_infer(1, [1, 2, 3], gen_config=asked):
            pass

    with pytest.raises(Reached):  # so it goes on, unguided
        asyncio.run(run())
    assert asked.response_format is None, "the engine tells by this that the schema was dropped"


def test_a_tokenizer_no_grammar_can_be_made_for_is_refused_where_lmdeploy_would_go_on_without(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = start()

    def refuse(*arguments: Any, **more: Any) -> None:
        raise ValueError("Unsupported tokenizer type")

    monkeypatch.setattr("xgrammar.TokenizerInfo.from_huggingface", refuse)
    with pytest.raises(EngineConfigError, match="cannot guide this model's answers") as caught:
        engine.preflight([LONG])
    assert "structured: none" in caught.value.cure


@pytest.mark.parametrize("structured", ["auto", "json_schema", "none"])
def test_guiding_can_be_turned_off(start: Start, structured: str) -> None:
    engine, native = start(structured=structured)
    engine.preflight([{"type": "nonsense"}] if structured == "none" else [LONG])
    assert ask(engine, [request("r", schema=LONG)])["r"].finish == "stop"
    assert (native.calls[-1].response_format is None) == (structured == "none")


@pytest.mark.parametrize("prefilled", [False, True])
@pytest.mark.parametrize("thinking", ["qwen3", "gpt-oss"])
def test_a_model_may_think_first_and_its_answer_is_what_follows(
    start: Start, thinking: str, prefilled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the template ends the prompt with the opening mark, as those of newer models do."""
    thought = THOUGHTS[thinking]
    if prefilled:
        plain = PreTrainedTokenizerFast.apply_chat_template

        def render(self: Any, *messages: Any, **settings: Any) -> Any:
            prompt = plain(self, *messages, **settings)
            return f"{prompt}{thought.begin}\n" if settings.get("tokenize") is False else prompt

        monkeypatch.setattr(PreTrainedTokenizerFast, "apply_chat_template", render)
    words = json.dumps(
        {"text": 'a "quoted" \u03b2\nword', "ok": True}, ensure_ascii=False, separators=(",", ":")
    )
    said = f"{'' if prefilled else thought.begin}Hm {{. {thought.end}{thought.then}{words}"
    engine, native = start(lambda prompt: said, thinking=thinking, keep_thoughts=True, thinking_tokens=300)
    engine.preflight([LONG])
    answer = ask(engine, [request("r", schema=LONG, max_tokens=400)])["r"]
    assert (answer.text, answer.thought) == (words, "Hm {.")
    sent = native.calls[-1]
    assert sent.skip_special_tokens is False
    assert sent.max_new_tokens == 700, "a thought takes nothing from the answer"
    assert native.engine_config.session_len == 512 + 300
    matcher = xgrammar.GrammarMatcher(
        compile_response_format(compiler_for(engine._pipe), sent.response_format)
    )
    assert matcher.accept_string(said), "LMDeploy's grammar must let the thought and the answer through"


@pytest.mark.parametrize("thinking", [True, None, False])
def test_gpt_oss_answers_with_its_marks_and_loads_without_a_network(
    model: Path, tmp_path: Path, thinking: bool | None, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDeploy's own tokenizer for it drops the marks, and downloads its vocabulary."""

    def download(*arguments: Any) -> None:
        raise AssertionError("the vocabulary of harmony was to be downloaded")

    monkeypatch.setattr("openai_harmony.load_harmony_encoding", download)
    folder = Path(shutil.copytree(model, tmp_path / "gpt-oss"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    (folder / "config.json").write_text(json.dumps(config))
    words = '{"text":"a text of some length","ok":true}'
    marks = THOUGHTS["gpt-oss"]
    said = f"{marks.begin}Hm.{marks.end}{marks.then}{words}" if thinking else words
    engine, _ = start(lambda prompt: said, model=str(folder), thinking=thinking)
    assert ask(engine, [request("r", schema=LONG)])["r"].text == words


def test_a_thinking_family_is_sampled_as_its_maker_advises(start: Start) -> None:
    """What comes before it: tests/engines/test_models.py."""
    engine, native = start(thinking=True)
    engine._sampling = sampling_of("Qwen/Qwen3-32B", True, None)  # the tiny model has no name of a family
    ask(engine, [request("r")])
    call = native.calls[-1]
    assert (call.do_sample, call.temperature, call.top_p, call.top_k) == (True, 0.6, 0.95, 20)
