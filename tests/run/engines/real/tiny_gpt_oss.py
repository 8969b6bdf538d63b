"""Tiny gpt-oss models with the whole vocabulary, as transformers reads them and as llama.cpp does.

Two layers, 64 wide, four experts; everything else is as in the real ones: sliding windows and full attention in turns,
sinks, YaRN, a mixture of experts with biases, 201,088 tokens. `make_random` never says anything. `make_taught` has
learnt a few conversations by heart, and so speaks Harmony; that takes a few seconds, because it goes to school with the
words of those conversations only.

torch, transformers and gguf are not there in `make test`, so they are imported by name and are Any to the checker.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harmonia.vocabulary import CALL, END_OF_TEXT, FIRST_SPECIAL, RETURN, START_OF_TEXT, VOCABULARY_SIZE
from harmonia.vocabulary.codec import default_vocabulary

LAYERS = 2
WIDTH = 64
EXPERTS = 4
SLIDING_WINDOW = 128
CONTEXT = 131072

# A prompt and its completion.
Lesson = tuple[Sequence[int], Sequence[int]]

# The lessons are learnt when no token's loss is above this: each has a chance of nine in ten. Some eighty steps.
LEARNT = 0.1
LEARNING_RATE = 6e-3
MOST_STEPS = 1000
IGNORED = -100  # cross_entropy's word for it


def make_config(vocabulary_size: int = VOCABULARY_SIZE) -> Any:
    transformers: Any = importlib.import_module("transformers")
    return transformers.GptOssConfig(
        num_hidden_layers=LAYERS,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        sliding_window=SLIDING_WINDOW,
        max_position_embeddings=CONTEXT,
        vocab_size=vocabulary_size,
        # As published, but for `truncate`: llama.cpp always rounds the frequencies at which YaRN begins and ends, and a
        # model that does not is another model there.
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": True,
            "original_max_position_embeddings": 4096,
        },
        eos_token_id=[RETURN, END_OF_TEXT, CALL],
        dtype="float32",
    )


def make_random(seed: int = 5) -> Any:
    """Random weights, drawn without touching the global random numbers. Large enough that the scores differ clearly:
    two engines that add in different orders must still agree on the largest one."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    model = transformers.GptOssForCausalLM(make_config()).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.normal_(0, 0.3, generator=generator)
        # Neither special tokens nor parts of characters are likely: llama.cpp streams no ids for the latter, and has no
        # log-probabilities of them at all.
        model.lm_head.weight[_unlikely_tokens()] = 0
    return model


def _unlikely_tokens() -> list[int]:
    def is_text(token: bytes) -> bool:
        try:
            token.decode()
        except UnicodeDecodeError:
            return False
        return True

    tokens = enumerate(default_vocabulary().token_bytes)
    return [index for index, token in tokens if index >= FIRST_SPECIAL or not is_text(token)]


def make_taught(lessons: Sequence[Lesson]) -> Any:
    """A model that continues each prompt with its completion, greedily and with a wide margin."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    words = sorted({token for prompt, completion in lessons for token in (*prompt, *completion)})
    place = {token: index for index, token in enumerate(words)}
    with torch.random.fork_rng():
        torch.manual_seed(5)
        # One word more than there are, which is never right: it stands for the rest of the vocabulary, whose scores
        # are zero.
        pupil = transformers.GptOssForCausalLM(make_config(len(words) + 1)).train()
        inputs, targets = _as_batch(torch, lessons, place)
        optimizer = torch.optim.AdamW(pupil.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
        for _ in range(MOST_STEPS):
            with torch.no_grad():
                pupil.lm_head.weight[-1] = 0
            scores = pupil(input_ids=inputs, use_cache=False).logits
            losses = torch.nn.functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
            if losses.max().item() < LEARNT:
                break
            loss = losses.sum() / (targets != IGNORED).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            raise AssertionError("the tiny model did not learn its lessons")
    model = transformers.GptOssForCausalLM(make_config()).eval()
    learnt = dict(pupil.named_parameters())
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name in ("model.embed_tokens.weight", "lm_head.weight"):
                weights.zero_()
                weights[words] = learnt[name][:-1]
            else:
                weights.copy_(learnt[name])
    return model


def _as_batch(torch: Any, lessons: Sequence[Lesson], place: dict[int, int]) -> tuple[Any, Any]:
    """The lessons side by side, and what should follow each token; what is not to be learnt is IGNORED. The shorter
    ones are filled up behind their ends, where no token that counts can see it."""
    longest = max(len(prompt) + len(completion) for prompt, completion in lessons) - 1
    inputs = torch.full((len(lessons), longest), len(place))
    targets = torch.full((len(lessons), longest), IGNORED)
    for row, (prompt, completion) in enumerate(lessons):
        tokens = torch.tensor([place[token] for token in (*prompt, *completion)])
        end = len(tokens) - 1
        inputs[row, :end] = tokens[:-1]
        targets[row, len(prompt) - 1 : end] = tokens[len(prompt) :]
    return inputs, targets


# For llama.cpp


def write_gguf(model: Any, file: Path, merges: Sequence[str]) -> None:
    """The same weights, under llama.cpp's names. `merges` are those of `byte_pair_merges`."""
    gguf: Any = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(str(file), "gpt-oss")
    config = model.config
    writer.add_name("tiny gpt-oss")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_count(config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(config.sliding_window)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_vocab_size(VOCABULARY_SIZE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-4o")  # llama.cpp's name of o200k's expression
    writer.add_token_list([spell(token) for token in default_vocabulary().token_bytes])
    ordinary, special = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)
    writer.add_token_types([ordinary] * FIRST_SPECIAL + [special] * (VOCABULARY_SIZE - FIRST_SPECIAL))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(START_OF_TEXT)
    writer.add_eos_token_id(RETURN)
    writer.add_add_bos_token(False)
    for name, weights in _llama_weights(model):
        writer.add_tensor(name, weights.detach().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _llama_weights(model: Any) -> Iterator[tuple[str, Any]]:
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    yield "output.weight", model.lm_head.weight
    for index, layer in enumerate(model.model.layers):
        block = f"blk.{index}"
        yield f"{block}.attn_norm.weight", layer.input_layernorm.weight
        yield f"{block}.post_attention_norm.weight", layer.post_attention_layernorm.weight
        attention = layer.self_attn
        yield f"{block}.attn_sinks.weight", attention.sinks
        for short, part in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("output", "o_proj")):
            yield f"{block}.attn_{short}.weight", getattr(attention, part).weight
            yield f"{block}.attn_{short}.bias", getattr(attention, part).bias
        yield f"{block}.ffn_gate_inp.weight", layer.mlp.router.weight
        yield f"{block}.ffn_gate_inp.bias", layer.mlp.router.bias
        experts = layer.mlp.experts
        # transformers has gate and up in turns, and inputs before outputs.
        for offset, short in enumerate(("gate", "up")):
            yield f"{block}.ffn_{short}_exps.weight", experts.gate_up_proj[..., offset::2].transpose(1, 2)
            yield f"{block}.ffn_{short}_exps.bias", experts.gate_up_proj_bias[..., offset::2]
        yield f"{block}.ffn_down_exps.weight", experts.down_proj.transpose(1, 2)
        yield f"{block}.ffn_down_exps.bias", experts.down_proj_bias


def _printable_bytes() -> list[str]:
    """The characters with which GPT-2's tokenizer files spell bytes: printable Latin-1 as it is, others above it."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_SPELLING = _printable_bytes()


def spell(token: bytes) -> str:
    """A token as tokenizer files have it."""
    return "".join(_SPELLING[byte] for byte in token)


def byte_pair_merges() -> list[str]:
    """For each token of more than one byte, the two that it was joined from: tokens of lower rank, lowest first."""
    tokens = default_vocabulary().token_bytes[:FIRST_SPECIAL]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    merges: list[str] = []
    for rank, token in enumerate(tokens):
        parts = [token[index : index + 1] for index in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda at: ranks.get(parts[at] + parts[at + 1], rank))
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append(f"{spell(parts[0])} {spell(parts[1])}")
    return merges
