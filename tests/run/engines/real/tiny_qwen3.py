"""Tiny Qwen3 models with a vocabulary of their own: models that know nothing of Harmony, in transformers and llama.cpp.

Two layers, 64 wide, and some hundred tokens that are made of the texts the model is to know; `<|im_start|>` and
`<|im_end|>` are special ones, as in the real models, while `<tool_call>` and `<think>` are added tokens with a meaning
for nobody but the reader. `teach` makes one that knows its lessons by heart.

torch, transformers, tokenizers and gguf are not there in `make test`, so they are Any to the checker.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LAYERS = 2
WIDTH = 64
HEADS = 4
CONTEXT = 4096
MOST_TOKENS = 700
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED = ("<tool_call>", "</tool_call>", "<think>", "</think>")
# How Qwen2's and Qwen3's tokenizers split a text into words.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

LEARNT = 0.1
LEARNING_RATE = 6e-3
MOST_STEPS = 1500
IGNORED = -100  # cross_entropy's word for it

# A prompt and its completion, without the token that ends the turn.
Lesson = tuple[str, str]


def make_tokenizer(texts: Sequence[str]) -> Any:
    """A tokenizer of transformers', of byte pairs, as Qwen's is made."""
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=MOST_TOKENS, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    made.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    made.add_tokens([tokenizers.AddedToken(text, special=False, normalized=False) for text in ADDED])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def make_model(tokenizer: Any, seed: int = 5) -> Any:
    """Random weights, drawn without touching the global random numbers."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return transformers.Qwen3ForCausalLM(config).eval()


def teach(model: Any, tokenizer: Any, lessons: Sequence[Lesson]) -> None:
    """Teach the model to continue each prompt with its completion, greedily and with a wide margin."""
    torch: Any = importlib.import_module("torch")
    rows = [
        (tokenizer(prompt)["input_ids"], [*tokenizer(completion)["input_ids"], tokenizer.eos_token_id])
        for prompt, completion in lessons
    ]
    longest = max(len(prompt) + len(completion) for prompt, completion in rows) - 1
    inputs = torch.full((len(rows), longest), tokenizer.pad_token_id)
    targets = torch.full((len(rows), longest), IGNORED)
    for row, (prompt, completion) in enumerate(rows):
        tokens = torch.tensor([*prompt, *completion])
        inputs[row, : len(tokens) - 1] = tokens[:-1]
        targets[row, len(prompt) - 1 : len(tokens) - 1] = tokens[len(prompt) :]
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        for _ in range(MOST_STEPS):
            scores = model(input_ids=inputs, use_cache=False).logits
            losses = torch.nn.functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
            if losses.max().item() < LEARNT:
                break
            optimizer.zero_grad()
            (losses.sum() / (targets != IGNORED).sum()).backward()
            optimizer.step()
        else:
            raise AssertionError("the tiny model did not learn its lessons")
    model.eval()


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """As transformers reads it."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_gguf(model: Any, tokenizer: Any, file: Path) -> None:
    """The same weights and the same vocabulary, as llama.cpp reads them."""
    gguf: Any = importlib.import_module("gguf")
    config = model.config
    writer = gguf.GGUFWriter(str(file), "qwen3")
    writer.add_name("tiny qwen3")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    kinds: dict[str, Any] = {**dict.fromkeys(SPECIAL, gguf.TokenType.CONTROL)}
    kinds |= dict.fromkeys(ADDED, gguf.TokenType.USER_DEFINED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([text for text, _ in by_id])
    writer.add_token_types([int(kinds.get(text, gguf.TokenType.NORMAL)) for text, _ in by_id])
    writer.add_token_merges(_merges_of(tokenizer))
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    weights = dict(model.named_parameters())
    for ours, theirs in _names_of_weights(config.num_hidden_layers):
        writer.add_tensor(theirs, weights[ours].detach().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _merges_of(tokenizer: Any) -> list[str]:
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]


def _names_of_weights(layers: int) -> list[tuple[str, str]]:
    names = [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("lm_head.weight", "output.weight"),
    ]
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for layer in range(layers):
        names += [(f"model.layers.{layer}.{a}.weight", f"blk.{layer}.{b}.weight") for a, b in parts.items()]
    return names
