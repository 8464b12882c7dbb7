"""Policies: a wrapper of whet_policy."""

import contextlib
import ctypes
import signal
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _declarations as c
from ._library import PolicyError, check, library

_UNUSED = ctypes.c_size_t(-1).value


class PolicyInfo(NamedTuple):
    """One line of the table of policies.

    syntax          of its name: "ssmax:s[:b[:g]]"
    summary         what it does
    example         a name that can be parsed: "ssmax:0.43"
    is_temperature  whether it chooses beta; a map otherwise
    """

    syntax: str
    summary: str
    example: str
    is_temperature: bool


def policies() -> List[PolicyInfo]:
    """Lists the policies that the library knows, in the order of `whet policies`."""
    result: List[PolicyInfo] = []
    while True:
        entry = library.whet_policy_table(len(result))
        if not entry:
            return result
        info = entry.contents
        result.append(PolicyInfo(info.syntax.decode(), info.summary.decode(), info.example.decode(), bool(info.is_temperature)))


class Parameter(NamedTuple):
    """A parameter of a policy: its name, where it is in the struct, and where its derivative is."""

    name: str
    offset: int
    gradient_offset: Optional[int]
    entropy_power: int
    is_learnable: bool


def parameters_of(policy: c.Policy) -> List[Parameter]:
    count = library.whet_policy_parameters(ctypes.byref(policy), None, 0)
    found = (c.Parameter * count)()
    library.whet_policy_parameters(ctypes.byref(policy), found, count)
    return [Parameter(p.name.decode(), p.offset, None if p.gradient_offset == _UNUSED else p.gradient_offset, p.entropy_power,
                      bool(p.is_learnable)) for p in found]


def read_double(policy: c.Policy, offset: int) -> float:
    return ctypes.c_double.from_buffer(policy, offset).value


def write_double(policy: c.Policy, offset: int, value: float) -> None:
    ctypes.c_double.from_buffer(policy, offset).value = value


class RowStatistics(NamedTuple):
    """What a policy of your own is given about a row of logits e.

    n         number of entries that are not masked
    max, min  largest and smallest of them
    z         sum of exp(e - max)
    s         sum of (e - max) exp(e - max)
    lse       log-sum-exp
    entropy   of softmax(e), in nats
    position  of the row's query, where there is one
    """

    n: int
    max: float
    z: float
    s: float
    lse: float
    entropy: float
    min: float
    position: int


_Result = Union[float, Tuple[float, float]]


class _Function:
    """A temperature written in Python, as a function pointer for the library.

    The library may call it from several threads; each call takes the GIL. An exception cannot pass through C: it is kept,
    this row and those after it become NaN, and the call that used the policy raises it.
    """

    def __init__(self, function: Callable[[RowStatistics], _Result]) -> None:
        self.function = function
        self.failure: Optional[BaseException] = None
        self.pointer = c.BetaFunction(self._call)

    def _call(self, stats: int, derivative: int, _context: Any) -> float:
        if self.failure is not None:
            return float("nan")
        try:
            row = c.Stats.from_address(stats)
            result = self.function(RowStatistics(row.n, row.max, row.z, row.s, row.logsumexp, row.entropy, row.min, row.position))
            if isinstance(result, tuple):
                result, slope = result
                ctypes.c_double.from_address(derivative).value = slope
            return float(result)
        except BaseException as failure:
            self.failure = failure
            return float("nan")

    def raise_failure(self) -> None:
        """Raises what the function raised during the last call."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure


@contextlib.contextmanager
def _interrupts_kept(function: _Function) -> Iterator[None]:
    """Lets Ctrl-C end a call that runs a Python function. KeyboardInterrupt may be raised as soon as Python runs, in a place
    where nobody catches it on its way into C; so it is kept as if the function had raised it."""
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def keep(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except BaseException as failure:
            function.failure = failure

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Policy:
    """A sharpening policy: a temperature, which computes beta from a row's statistics, and a map.

    `Policy("target:2+entmax15")` parses a name, see `whet.policies()`. `Policy(function)` makes a temperature of a Python
    function of `RowStatistics` that returns beta, or beta and its derivative with respect to the entropy; it is called once or
    more for every row, which takes about a microsecond each time, from any thread.

    Policies are immutable. They can be compared, used as keys and pickled (a function of your own only if it can be pickled
    itself). `p + q` combines the temperature of one with the map of the other.
    """

    __slots__ = ("struct", "address", "_name", "_function")

    struct: c.Policy

    def __init__(self, policy: Union[str, "Policy", Callable[[RowStatistics], _Result]] = "softmax") -> None:
        function: Optional[_Function] = None
        if isinstance(policy, Policy):
            struct, function = policy.struct, policy._function
        elif isinstance(policy, str):
            if not policy.isprintable():
                raise PolicyError(f"{policy!r} is not the name of a policy: names are printable ASCII")
            struct = c.Policy()
            message = ctypes.create_string_buffer(512)
            if library.whet_policy_parse(policy.encode(), ctypes.byref(struct), message, len(message)) != c.OK:
                raise PolicyError(message.value.decode())
        elif isinstance(getattr(policy, "base", None), Policy):
            raise TypeError("a whet.torch.Policy is passed to calls on tensors, alone: one with heads=N has a set of parameters for each "
                            "head, and its policy(head) is a whet.Policy")
        elif callable(policy):
            function = _Function(policy)
            struct = library.whet_policy_custom(ctypes.cast(function.pointer, ctypes.c_void_p), None)
        else:
            raise TypeError(f"a policy is a name, a whet.Policy or a function, not {type(policy).__name__}")
        self._set(struct, function)

    def _set(self, struct: c.Policy, function: Optional[_Function]) -> None:
        self.struct = struct
        self.address = ctypes.addressof(struct)
        self._function = function
        self._name: Optional[str] = None

    @classmethod
    def _from_struct(cls, struct: c.Policy, function: Optional[_Function] = None) -> "Policy":
        message = ctypes.create_string_buffer(512)
        if library.whet_policy_check(ctypes.byref(struct), message, len(message)) != c.OK:
            raise PolicyError(message.value.decode())
        result = cls.__new__(cls)
        result._set(struct, function)
        return result

    @classmethod
    def parse(cls, name: str) -> "Policy":
        """The policy of that name; the same as `Policy(name)`."""
        return cls(name)

    @property
    def name(self) -> str:
        """The name from which `parse` makes the same policy; "custom" for a function of your own."""
        if self._name is None:
            size = library.whet_policy_name(self.address, None, 0) + 1
            buffer = ctypes.create_string_buffer(size)
            library.whet_policy_name(self.address, buffer, size)
            self._name = buffer.value.decode()
        return self._name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"whet.Policy({self._function.function!r})" if self._function else f"whet.Policy({self.name!r})"

    def _key(self) -> Tuple[str, Optional[Callable[..., Any]]]:
        return self.name, self._function.function if self._function else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Tuple[Any, ...]:
        if not self._function:
            return Policy, (self.name,)
        return _rebuild, (self._function.function, self._map().name, self.struct.strength)

    def _map(self) -> "Policy":
        return Policy._from_struct(library.whet_policy_compose(library.whet_policy_softmax(), self.struct))

    def __add__(self, other: Union[str, "Policy"]) -> "Policy":
        """The temperature of this policy with the map of the other."""
        if not isinstance(other, (str, Policy)):
            return NotImplemented
        other = Policy(other)
        if not self.is_temperature:
            raise PolicyError(f"{self} + {other}: {self} has a map already; write TEMPERATURE + MAP")
        if other._map() != other:
            raise PolicyError(f"{self} + {other}: {other} is not a map; write TEMPERATURE + MAP")
        return Policy._from_struct(library.whet_policy_compose(self.struct, other.struct), self._function)

    def __radd__(self, other: str) -> "Policy":
        return Policy(other) + self if isinstance(other, str) else NotImplemented

    def with_strength(self, strength: float) -> "Policy":
        """The same policy with beta replaced by 1 + strength (beta - 1)."""
        return Policy._from_struct(library.whet_policy_with_strength(self.struct, float(strength)), self._function)

    @property
    def is_temperature(self) -> bool:
        """Whether its map is softmax."""
        return bool(library.whet_policy_is_temperature(self.address))

    @property
    def is_function(self) -> bool:
        """Whether its temperature is a Python function."""
        return self._function is not None

    @property
    def parameters(self) -> Dict[str, float]:
        """Its parameters by name, those of the temperature first."""
        return {p.name: read_double(self.struct, p.offset) for p in parameters_of(self.struct)}

    def with_parameters(self, **values: float) -> "Policy":
        """The same policy with some of its parameters replaced."""
        struct = c.Policy.from_buffer_copy(self.struct)
        places = {p.name: p.offset for p in parameters_of(struct)}
        for name, value in values.items():
            if name not in places:
                raise PolicyError(f"{self} has no parameter {name}; it has {', '.join(places) or 'none'}")
            write_double(struct, places[name], value)
        return Policy._from_struct(struct, self._function)

    def beta(self, entropy: float = 0.0, n: int = 1, position: int = 0) -> float:
        """The inverse temperature for a row of `n` entries with this entropy, whose query is at `position`.

        `target` needs the logits themselves: `whet.softmax(x, policy, return_aux=["beta"])`.
        """
        for name, count in (("n", n), ("position", position)):
            if not 0 <= count < 1 << 63:
                raise ValueError(f"{name} is {count}; it is a count from 0 on")
        stats = library.whet_stats_empty()
        stats.n, stats.entropy, stats.position, stats.flags = n, entropy, position, 0
        # One row that has this entropy: Z = exp(H) equal entries.
        stats.max, stats.min, stats.s = 0.0, 0.0, 0.0
        stats.logsumexp = entropy
        stats.z = min(2.718281828459045**min(entropy, 700.0), 1e300)
        result = library.whet_policy_beta(self.address, ctypes.byref(stats))
        if self._function is not None:
            self._function.raise_failure()
        if result != result and entropy == entropy and self._function is None:
            raise PolicyError(f"{self}: beta needs the logits: whet.softmax(x, policy, return_aux=['beta'])")
        return float(result)


def call(policies: Sequence[Policy], function: Any, *arguments: Any) -> None:
    """Calls a function of the library with these policies, and raises its status, or what a Python function among them raised."""
    functions = [policy._function for policy in policies if policy._function is not None]
    if not functions:
        check(function(*arguments))
        return
    with _interrupts_kept(functions[0]):
        status = function(*arguments)
    for one in functions:
        one.raise_failure()
    check(status)


def _rebuild(function: Callable[[RowStatistics], _Result], map_name: str, strength: float) -> Policy:
    result = Policy(function)
    if map_name != "softmax":
        result = result + map_name
    return result if strength == 1 else result.with_strength(strength)


PolicyLike = Union[str, Policy, Callable[[RowStatistics], _Result]]

_parsed: Dict[str, Policy] = {}


def as_policy(policy: PolicyLike) -> Policy:
    """A policy from what callers may pass; names are parsed once."""
    if isinstance(policy, str):
        found = _parsed.get(policy)
        if found is None:
            if len(_parsed) >= 256:
                _parsed.clear()
            found = _parsed[policy] = Policy(policy)
        return found
    return policy if isinstance(policy, Policy) else Policy(policy)


def array_of(chosen: Sequence[Policy]) -> Any:
    """The structs of several policies, contiguous."""
    return (c.Policy * len(chosen))(*[policy.struct for policy in chosen])
