"""whet as an attention implementation of Hugging Face's transformers.

    import whet
    whet.transformers.register(policy="adaptive", layers="20-21")
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="whet")

transformers is not among the packages this is developed with: the interface it documents (AttentionInterface) is played by a
stand-in in the tests.
"""

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from ._config import Config
from ._policy import Policy, PolicyLike


def attention_function(policies: Callable[[int, int], Any]) -> Callable[..., Tuple[Any, None]]:
    """A function as AttentionInterface takes them; policies(layer, heads) gives the policies of a layer."""
    from .torch import attention

    def whet_attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, scaling: Optional[float] = None,
                       dropout: float = 0.0, is_causal: Optional[bool] = None, sliding_window: Optional[int] = None,
                       softcap: Optional[float] = None, s_aux: Any = None, **_: Any) -> Tuple[Any, None]:
        """query [batch][heads][queries][dim], key and value [batch][kv heads][keys][dim] -> [batch][queries][heads][dim], None."""
        queries, keys = query.shape[2], key.shape[2]
        if is_causal is None:
            is_causal = bool(getattr(module, "is_causal", True))
        if attention_mask is not None:
            # The mask holds causality and the window already.
            attention_mask = attention_mask[..., :keys]
            is_causal, sliding_window = False, None
        chosen = policies(int(getattr(module, "layer_idx", 0) or 0), query.shape[1])
        out = attention(query, key, value, attention_mask, is_causal, scaling, True, policy=chosen, window=sliding_window, softcap=softcap,
                        sinks=s_aux, offset=keys - queries, dropout_p=dropout if module.training else 0.0)
        return out.transpose(1, 2).contiguous(), None

    return whet_attention


def register(policy: Union[PolicyLike, Any] = "adaptive", layers: Optional[str] = None, heads: Optional[str] = None,
             config: Union[None, str, "os.PathLike[str]", Dict[str, Any]] = None, name: str = "whet") -> Callable[..., Any]:
    """Registers attention with a policy, for `attn_implementation="whet"`.

    policy  for the chosen layers and heads; the others keep softmax. Also a `whet.torch.Policy`, or a function (layer, heads) that
            returns a policy or a list with one for each head, if neither layers nor heads are given
    layers  such as "0-3,7"; default: all
    heads   query heads, likewise
    config  a settings file as the plug-in takes it in WHET_CONFIG, or its contents, instead of the three above
    name    of the implementation
    """
    from transformers import AttentionInterface  # type: ignore[import, unused-ignore]

    function = attention_function(_chooser(policy, layers, heads, config))
    AttentionInterface.register(name, function)
    try:
        from transformers import AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask  # type: ignore[import, unused-ignore]
    except ImportError:
        pass  # versions that make masks without asking
    else:
        AttentionMaskInterface.register(name, sdpa_mask)
    return function


def _chooser(policy: Any, layers: Optional[str], heads: Optional[str], config: Any) -> Callable[[int, int], Any]:
    if isinstance(policy, str):
        policy = Policy(policy)
    if config is not None and (layers is not None or heads is not None or policy != Policy("adaptive")):
        raise ValueError("config takes the place of policy, layers and heads: pass one or the other")
    if (layers is not None or heads is not None) and (not isinstance(policy, Policy) or policy.is_function):
        raise TypeError(f"layers and heads go with the name of a policy, not with a {type(policy).__name__}: pass a function "
                        "(layer, heads) that returns policies")
    if config is None and layers is None and heads is None:
        if callable(policy) and not hasattr(policy, "weight") and not hasattr(policy, "struct"):
            return policy  # type: ignore[no-any-return]
        return lambda layer, count: policy
    if config is None:
        rule = {"policy": str(policy), **({"layers": layers} if layers else {}), **({"heads": heads} if heads else {})}
        config = {"policy": "softmax", "rules": [rule]}
    rules = Config(config)
    found: Dict[Tuple[int, int], List[Any]] = {}

    def choose(layer: int, count: int) -> List[Any]:
        if (layer, count) not in found:
            found[layer, count] = rules.policies(layer, count)
        return found[layer, count]

    return choose
