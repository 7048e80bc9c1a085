"""Writes a random language model of 2 MB with a tokenizer of characters into a folder; for the interpreter of vLLM."""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

words = ["<pad>", "<eos>", "<unk>", *map(chr, range(32, 127))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
).save_pretrained(sys.argv[1])
config = LlamaConfig(
    vocab_size=128, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=512, bos_token_id=1, eos_token_id=1, pad_token_id=0,
)  # fmt: skip
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
