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
    if not isinstance(rule["policy"], str):
        raise ValueError(f'"policy": {rule["policy"]!r} is not a name')
    policy, strength = Policy(rule["policy"]), rule.get("strength")
    if "strength" not in rule:
        return policy
    if not isinstance(strength, (int, float)) or isinstance(strength, bool) or not 0 <= strength <= 1:
        raise ValueError(f'"strength": {strength!r} is not a number from 0 to 1')
    if policy.struct.strength != 1:
        raise ValueError(f'"strength": {policy} already has one')
    return policy.with_strength(strength)


def _refuse_others(found: Any, known: Set[str]) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{found!r} is not a JSON object")
    for key in found:
        if key not in known:
            raise ValueError(f'unknown key "{key}"; there are {", ".join(sorted(known))}')


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


class Config:
    """What policy each head of each layer has. The last rule that names a head decides."""

    def __init__(self, settings: Union[str, "os.PathLike[str]", Dict[str, Any]]) -> None:
        where = "settings"
        if isinstance(settings, (str, os.PathLike)):
            where = os.fspath(settings)
            with open(settings, encoding="utf-8") as file:
                try:
                    settings = json.load(file, object_pairs_hook=_object)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
        try:
            self._read(settings)
        except KeyError as error:
            raise ValueError(f"{where}: rule without a {error.args[0]}") from None
        except ValueError as error:
            raise type(error)(f"{where}: {error}") from None

    def _read(self, settings: Any) -> None:
        _refuse_others(settings, {"policy", "strength", "rules", "about"})
        if "strength" in settings and "policy" not in settings:
            raise ValueError("strength without a policy")
        self.rules: List[Rule] = [Rule(_policy(settings) if "policy" in settings else Policy("softmax"))]
        rules = settings.get("rules", [])
        if not isinstance(rules, list):
            raise ValueError(f'"rules": {rules!r} is not a list')
        for rule in rules:
            _refuse_others(rule, {"policy", "strength", "layers", "heads", "about"})
            self.rules.append(Rule(_policy(rule), *(_ranges(key, rule[key]) if key in rule else None for key in ("layers", "heads"))))

    def policies(self, layer: int, heads: int) -> List[Policy]:
        """The policy of each head of a layer."""
        def names(ranges: Ranges, number: int) -> bool:
            return ranges is None or any(first <= number <= last for first, last in ranges)

        return [next(rule.policy for rule in reversed(self.rules) if names(rule.layers, layer) and names(rule.heads, head))
                for head in range(heads)]
