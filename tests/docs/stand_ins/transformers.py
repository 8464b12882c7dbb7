"""What documents use of Hugging Face's transformers, for machines without it: the registry, and a model that names its attention."""


class AttentionInterface:
    functions = {}

    @classmethod
    def register(cls, key, value):
        cls.functions[key] = value


class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, name, attn_implementation="sdpa"):
        model = cls()
        model.name, model.attention = name, AttentionInterface.functions[attn_implementation]
        return model
