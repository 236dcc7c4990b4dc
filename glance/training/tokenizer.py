"""A byte-level BPE tokenizer of 512 tokens with Qwen's special tokens and chat format.

Small pieces matter: a visual token can say which two or three characters it holds, not which word.
"""

from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from glance.synth import FAMILIES, sample

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
MASK = "<|mask|>"
SPECIAL = (END_OF_TEXT, START, END, VISION_START, VISION_END, IMAGE, VIDEO, MASK)

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

# single digits, words with their leading space, runs of punctuation, white space
_PIECES = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _texts(count: int) -> Iterator[str]:
    for i in range(count):
        drawn = sample(FAMILIES[i % len(FAMILIES)], i)
        yield drawn.question
        yield drawn.answer


def build_tokenizer(vocabulary: int = 512, samples: int = 8000) -> PreTrainedTokenizerFast:
    """Train the tokenizer on questions and answers of the train split. Deterministic."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(_texts(samples), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=END_OF_TEXT,
        mask_token=MASK,
        additional_special_tokens=[START, VISION_START, VISION_END, IMAGE, VIDEO],
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
