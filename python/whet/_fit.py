"""A polynomial policy fitted to points."""

import math
from typing import Any, Optional

from ._policy import Policy


def fit_polynomial(entropy: Any, beta: Any, degree: int = 4, threshold: Optional[float] = None, floor: float = 1.0,
                   hold: Optional[float] = None, weights: Any = None) -> Policy:
    """The policy poly:... that fits the points (entropy, beta) in the least-squares sense, as the paper fits its own.

    entropy    the entropies of rows, in nats: any shape of at least degree + 1 points
    beta       the inverse temperature wanted for each, of the same shape
    degree     of the polynomial, 1 to 8
    threshold  beta is 1 where the entropy is at most this (default: none)
    floor      beta is never below this (default 1)
    hold       beta stays what it is there for larger entropies; default: the largest entropy given, since a polynomial
               means nothing beyond the points it was fitted to. math.inf: no hold
    weights    of the points' errors, of the same shape (default: equal)
    """
    import numpy

    h = numpy.asarray(entropy, dtype=numpy.float64).ravel()
    b = numpy.asarray(beta, dtype=numpy.float64).ravel()
    w = numpy.ones_like(h) if weights is None else numpy.asarray(weights, dtype=numpy.float64).ravel()
    if h.shape != b.shape or h.shape != w.shape:
        raise ValueError(f"entropy, beta and weights have {h.size}, {b.size} and {w.size} values; they must have equally many")
    if not 1 <= degree <= 8:
        raise ValueError(f"degree is {degree}; it is between 1 and 8")
    if not (numpy.isfinite(h).all() and numpy.isfinite(b).all() and numpy.isfinite(w).all()):
        raise ValueError("entropy, beta and weights must be finite")
    if (w < 0).any():
        raise ValueError("weights must not be negative")
    if numpy.unique(h[w != 0]).size <= degree:
        raise ValueError(f"a polynomial of degree {degree} needs {degree + 1} different entropies")
    # In [-1, 1], where powers are well conditioned; convert() returns to powers of H, the lowest first.
    fitted = numpy.polynomial.Polynomial.fit(h, b, degree, w=numpy.sqrt(w)).convert().coef  # type: ignore[no-untyped-call]
    coefficients = numpy.zeros(degree + 1)
    coefficients[:fitted.size] = fitted
    name = "poly:" + "/".join(repr(float(value)) for value in coefficients[::-1])
    if threshold is not None:
        name += f":threshold={float(threshold)!r}"
    name += f":floor={float(floor)!r}"
    end = float(h.max()) if hold is None else float(hold)
    if end != math.inf:
        name += f":hold={end!r}"
    return Policy(name)
