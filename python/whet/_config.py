"""Policies by layer and head: the settings file of the plug-in for llama.cpp (WHET_CONFIG), for other hosts."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from ._policy import Policy

Ranges = Optional[Tuple[Tuple[int, int], ...]]


class Rule(NamedTuple):
    """A policy for some layers and heads; None: for all."""

    policy: Policy
    layers: Ranges = None
    heads: Ranges = None


def _ranges(key: str, text: Any) -> Ranges:
    """"0-3,7" as pairs."""
    result = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            if not (first.isdigit() and (last.isdigit() or last == "")) or int(last or first) < int(first):
                raise ValueError
            result.append((int(first), int(last or first)))
    except (AttributeError, ValueError):
        raise ValueError(f'"{key}": {text!r} is not a list such as "0-3,7"') from None
    return tuple(result)


def _policy(rule: Dict[str, Any]) -> Policy:
    policy = Policy(rule["policy"])
    return policy.with_strength(rule["strength"]) if "strength" in rule else policy


def _refuse_others(found: Dict[str, Any], known: Set[str]) -> None:
    for key in found:
        if key not in known:
            raise ValueError(f'unknown key "{key}"; there are {", ".join(sorted(known))}')


class Config:
    """What policy each head of each layer has. The last rule that names a head decides."""

    def __init__(self, settings: Union[str, "os.PathLike[str]", Dict[str, Any]]) -> None:
        where = "settings"
        if not isinstance(settings, dict):
            where = os.fspath(settings)
            with open(settings, encoding="utf-8") as file:
                try:
                    settings = json.load(file)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
        try:
            self._read(settings)
        except KeyError as error:
            raise ValueError(f"{where}: rule without a {error.args[0]}") from None
        except ValueError as error:
            raise type(error)(f"{where}: {error}") from None

    def _read(self, settings: Any) -> None:
        if not isinstance(settings, dict):
            raise ValueError("not a JSON object")
        _refuse_others(settings, {"policy", "strength", "rules", "about"})
        if "strength" in settings and "policy" not in settings:
            raise ValueError("strength without a policy")
        self.rules: List[Rule] = [Rule(_policy(settings) if "policy" in settings else Policy("softmax"))]
        for rule in settings.get("rules", []):
            _refuse_others(rule, {"policy", "strength", "layers", "heads", "about"})
            self.rules.append(Rule(_policy(rule), *(_ranges(key, rule[key]) if key in rule else None for key in ("layers", "heads"))))

    def policies(self, layer: int, heads: int) -> List[Policy]:
        """The policy of each head of a layer."""
        def names(ranges: Ranges, number: int) -> bool:
            return ranges is None or any(first <= number <= last for first, last in ranges)

        return [next(rule.policy for rule in reversed(self.rules) if names(rule.layers, layer) and names(rule.heads, head))
                for head in range(heads)]
