"""LMDeploy is loaded as configured, or refused with the reason. Run by test_engine.py in LMDeploy's environment."""

import json
import math
from pathlib import Path
from typing import Any

import lmdeploy
import pytest
from lmdeploy_fake import Start

from kgqa_hpc.engines.lmdeploy import LmdeployEngine
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings
from kgqa_hpc.engines.models import read_size
from kgqa_hpc.errors import EngineConfigError
from tests.engines import published_models as published


@pytest.mark.parametrize(
    ("available", "words"), [(False, "TurboMind cannot run here"), (True, "does not know the architecture")]
)
def test_turbomind_that_cannot_run_the_model_is_refused_not_replaced(
    model: Path, monkeypatch: pytest.MonkeyPatch, available: bool, words: str
) -> None:
    monkeypatch.setattr("lmdeploy.turbomind.is_available", lambda: available)
    monkeypatch.setattr("lmdeploy.archs.autoget_backend", lambda *args, **kwargs: "pytorch")
    with pytest.raises(EngineConfigError, match=words) as caught:
        LmdeployEngine(LmdeploySettings(model=str(model)))
    assert caught.value.exit_code == 2


def test_a_model_that_cannot_be_loaded_and_a_check_of_lmdeploy_that_exits_are_bad_input(
    start: Start, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineConfigError, match="cannot load"):
        start(model=str(tmp_path))
    from lmdeploy.pytorch.check_env.base import BaseChecker

    class Driver(BaseChecker):
        def check(self) -> None:
            self.log_and_exit(message="the driver is too old")

    monkeypatch.setattr("lmdeploy.pipeline", lambda *args, **kwargs: Driver().handle())
    with pytest.raises(EngineConfigError, match=r"cannot load .*SystemExit: 1") as caught:
        LmdeployEngine(LmdeploySettings(model=str(model), backend="pytorch"))
    assert caught.value.exit_code == 2


def test_settings_reach_the_engine_and_its_info_is_provenance_without_paths(start: Start) -> None:
    engine, native = start(
        quant_policy=4, model_format="awq", cache_max_entry_count=0.7, max_prefill_token_num=2048
    )
    config = native.engine_config
    assert (int(config.quant_policy), config.model_format, config.enable_prefix_caching) == (4, "awq", True)
    assert (config.session_len, config.cache_max_entry_count) == (512, 0.7)
    assert config.max_prefill_token_num == 2048
    info = engine.info
    assert (info.name, info.version, info.max_batch) == ("lmdeploy", lmdeploy.__version__, 4)
    assert info.model.startswith("tiny-model")
    assert (info.quantisation, len(info.digest)) == ("awq kv4", 64)
    assert "/" not in "".join(info.provenance().values())


def test_the_batch_follows_the_memory_of_the_card(start: Start, model: Path, monkeypatch: Any) -> None:
    from kgqa_hpc.engines import lmdeploy_loading as loading
    from kgqa_hpc.engines.models import OVERHEAD_BYTES, SHARED_TOKENS

    (model / "model.safetensors").write_bytes(bytes(1000))
    try:
        # 2 layers x 4 heads x 128 numbers x keys and values x 2 bytes = 4,096 bytes a token
        room = (SHARED_TOKENS + 100 * 200) * 4096 / 0.5 + OVERHEAD_BYTES + 1000 + 1
        monkeypatch.setattr(loading, "card", lambda: (int(room), ""))
        engine, native = start(max_batch_size=None, cache_max_entry_count=0.5, sequence_tokens=200)
        assert native.engine_config.max_batch_size == 100
        assert (engine.info.max_batch, engine.info.window) == (100, 126)
        monkeypatch.setattr(loading, "card", lambda: (OVERHEAD_BYTES, ""))
        with pytest.raises(EngineConfigError, match="less than one sequence"):
            start()
    finally:
        (model / "model.safetensors").unlink()


def test_lmdeploys_pytorch_backend_takes_the_format_from_the_model(model: Path) -> None:
    from kgqa_hpc.engines.lmdeploy_loading import backend_config

    plain = LmdeploySettings(model=str(model), backend="pytorch", extra={"eager_mode": True})
    config = backend_config(plain, 12)
    assert (config.max_batch_size, config.eager_mode, config.model_format) == (12, True, None)
    fp8 = backend_config(LmdeploySettings(model=str(model), backend="pytorch", model_format="fp8"), None)
    assert fp8.model_format == "fp8"
    with pytest.raises(ValueError, match="reads the format from the model"):
        LmdeploySettings(model=str(model), backend="pytorch", model_format="awq")


def test_the_formats_that_may_be_named_are_those_turbomind_knows() -> None:
    import ast

    source = (Path(lmdeploy.__file__).parent / "turbomind" / "converter.py").read_text()
    (table,) = (
        node.value
        for node in ast.parse(source).body  # not imported: it needs the native engine
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_DEFAULT_GROUP_SIZES"
    )
    field = LmdeploySettings.model_fields["model_format"].annotation
    assert set(ast.literal_eval(table)) | {"hf"} == set(field.__args__[0].__args__)


def test_a_staged_model_is_loaded_from_its_copy_and_known_by_its_own_name(
    start: Start, model: Path, tmp_path: Path
) -> None:
    plain, _ = start()
    staged, native = start(stage_to=str(tmp_path))
    assert tmp_path in Path(native.model).parents
    assert staged.info.provenance() == plain.info.provenance()


def lmdeploys_bytes(hub: dict[str, Any], quant_policy: int, tp: int) -> float:
    """Bytes of a token on each card, by LMDeploy's own code for its PyTorch backend."""
    import torch
    from lmdeploy.messages import QuantPolicy
    from lmdeploy.pytorch.config import CacheConfig
    from lmdeploy.pytorch.configurations import AutoModelConfigBuilder
    from lmdeploy.pytorch.engine.cache_engine import schema
    from transformers import AutoConfig

    tokens = 64
    known = AutoConfig.for_model(**hub)
    model = AutoModelConfigBuilder.build(known, None, tp=tp)
    model.dtype = torch.float16
    cache = CacheConfig(1, tokens, 0, 0, quant_policy=QuantPolicy(quant_policy))
    keys, values = (make(model, cache, tp) for make in (schema.build_k_cache_desc, schema.build_v_cache_desc))
    parts = [keys, values, *schema.build_quant_cache_descs(keys, values, model, cache)]
    sizes = (math.prod(part.shape) * part.dtype.itemsize for part in parts if math.prod(part.shape[:-1]))
    return sum(sizes) * model.num_layers / tokens


@pytest.mark.parametrize(("quant_policy", "tp"), [(0, 1), (8, 1), (4, 1), (0, 2), (8, 4)])
@pytest.mark.parametrize("name", ["LLAMA_70B", "QWEN2_5_7B", "QWEN3_32B", "DEEPSEEK_V3", "GPT_OSS_120B"])
def test_the_bytes_of_a_token_are_those_of_lmdeploys_own_cache(
    name: str, quant_policy: int, tp: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmdeploy.pytorch.configurations.deepseek_v2.flash_mla_available", lambda: False)
    hub = getattr(published, name)
    if name == "DEEPSEEK_V3" and quant_policy:
        pytest.skip("LMDeploy quantises no latent cache")
    (tmp_path / "config.json").write_text(json.dumps(hub))
    size = read_size(tmp_path)
    assert size is not None
    assert size.kv_bytes(quant_policy, tp) == lmdeploys_bytes(hub, quant_policy, tp)


def test_a_vision_model_is_loaded_as_a_language_model(start: Start) -> None:
    from lmdeploy.archs import get_task
    from lmdeploy.serve.core import AsyncEngine

    _, native = start()
    task = get_task("turbomind", "any/vision-model", backend_config=native.engine_config)
    assert task == ("llm", AsyncEngine)


def test_a_warning_for_each_request_stays_out_of_the_log(start: Start, caplog: Any) -> None:
    from lmdeploy.utils import get_logger

    start()
    logger = get_logger("lmdeploy")
    logger.addHandler(caplog.handler)
    try:
        logger.warning("Detected duplicate bos token 1 in prompt, this will likely reduce response quality")
        logger.warning("something else")
    finally:
        logger.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == ["something else"]
