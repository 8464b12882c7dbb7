# needs: pytest numpy
"""whet.softmax and whet.entropy of numpy arrays: against definitions in double, over layouts, types and arguments."""

import itertools
import tracemalloc

import numpy as np
import pytest
import whet

RANDOM = np.random.default_rng(1)


def normal(*shape, dtype=np.float32):
    return (2 * RANDOM.standard_normal(shape)).astype(dtype)


def reference(x, axis=-1, beta=None, sink=None):
    """softmax(beta x) and the entropy of softmax(x), in double, with an additional logit of each row."""
    x = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    extra = -np.inf if sink is None else sink
    whole = np.concatenate([x, np.broadcast_to(extra, x.shape[:-1])[..., None]], -1)

    def normalise(e):
        p = np.exp(e - np.maximum(e.max(-1, keepdims=True), -1e300))
        return p / np.maximum(p.sum(-1, keepdims=True), 1e-300)

    p = normalise(whole)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    with np.errstate(invalid="ignore"):
        sharp = whole if beta is None else np.where(np.isinf(whole), whole, np.asarray(beta)[..., None] * whole)
    return np.moveaxis(normalise(sharp)[..., :-1], -1, axis), entropy


def paper_beta(h):
    return np.where(h > 0.5, np.maximum(1, np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], h)), 1)


def layouts():
    """Arrays of three axes with every kind of stride."""
    x = normal(6, 5, 7)
    yield from (x, x[::2, ::2], x[::-1], x[:, ::-1, :], x[:, :, ::-1], x[:, :, ::3], x.transpose(2, 0, 1), np.asfortranarray(x))
    yield from (np.broadcast_to(x[:1], (4, 5, 7)), np.broadcast_to(x[:, :1], (6, 3, 7)), np.broadcast_to(x[..., :1], (6, 5, 3)))
    yield from (x[:1], x[:, :1], x[:, :, :1], x[:0], x[:, :0], normal(3, 700, 40)[:, ::2, :], normal(40, 700, 3).T)
    packed = np.zeros((4, 5, 6), dtype=[("byte", "u1"), ("value", "f4")])
    packed["value"] = normal(4, 5, 6)
    yield packed["value"]
    # Contiguous, but not aligned, as in a file that is mapped into memory.
    yield np.frombuffer(b"-" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)


def test_any_strides_and_axes():
    for x, axis in itertools.product(layouts(), (-1, 0, 1, 2)):
        expected, entropy = reference(x, axis, paper_beta(reference(x, axis)[1]))
        result, aux = whet.softmax(x, "adaptive", axis=axis, return_aux=("entropy", "beta"))
        np.testing.assert_allclose(result, expected, atol=2e-6)
        np.testing.assert_array_equal(whet.softmax(x, "adaptive", axis=axis), result)
        np.testing.assert_allclose(aux.entropy, entropy, atol=1e-5)
        np.testing.assert_allclose(aux["beta"], paper_beta(entropy), atol=1e-4)
        np.testing.assert_allclose(whet.entropy(x, axis=axis), entropy, atol=1e-5)


def test_out_of_any_layout():
    for x, axis in itertools.product(layouts(), (-1, 0)):
        expected = whet.softmax(x, "softmax", axis=axis)
        for out in (np.empty(x.shape, np.float32), np.empty(x.shape[::-1], np.float32).T,
                    np.empty((*x.shape[:-1], 3 * x.shape[-1] + 1), np.float32)[..., 1::3]):
            assert whet.softmax(x, "softmax", axis=axis, out=out) is out
            np.testing.assert_array_equal(out, expected)


def test_an_out_that_cannot_be_written_is_refused():
    x = normal(3, 4)
    out = np.zeros_like(x)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        whet.softmax(x, out=out)
    assert not out.any()
    with pytest.raises(whet.DtypeError, match="out has dtype float64.*pass an array of one of these"):
        whet.softmax(x, out=np.zeros((3, 4)))


def test_in_place_and_overlapping():
    x = normal(9, 11)
    expected = whet.softmax(x)
    y = x.copy()
    assert whet.softmax(y, out=y) is y
    np.testing.assert_array_equal(y, expected)
    whole = np.concatenate([x, x])
    whet.softmax(whole[:9], out=whole[3:12])
    np.testing.assert_array_equal(whole[3:12], expected)


def test_half_types():
    x = normal(7, 33)
    exact = whet.softmax(x)
    np.testing.assert_allclose(whet.softmax(x.astype(np.float16)).astype(np.float32), exact, atol=4e-3)
    assert whet.softmax(x.astype(np.float16)).dtype == np.float16
    as_bf16 = (x.view(np.uint32) >> 16).astype(np.uint16)
    result = whet.softmax(as_bf16)
    assert result.dtype == np.uint16
    np.testing.assert_allclose((result.astype(np.uint32) << 16).view(np.float32), exact, atol=3e-2)
    wide = np.empty(x.shape, np.float32)
    np.testing.assert_allclose(whet.softmax(x.astype(np.float16), out=wide), exact, atol=4e-3)


def test_bfloat16_of_ml_dtypes_is_recognised_by_its_name():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    x = normal(3, 9)
    np.testing.assert_allclose(whet.softmax(x.astype(ml_dtypes.bfloat16)).astype(np.float32), whet.softmax(x), atol=3e-2)


def test_other_types_are_refused_with_what_to_do():
    for x, hint in ((normal(4, dtype=np.float64), r"x\.astype\(numpy\.float32\)"), (np.arange(4), "float32"), (np.array(["a"]), "numbers"),
                    (normal(4).astype(">f4"), "float32")):
        with pytest.raises(TypeError, match=hint):
            whet.softmax(x)
        with pytest.raises(ValueError, match="dtype"):
            whet.entropy(x)
    with pytest.raises(TypeError, match="out has dtype float64"):
        whet.softmax(normal(4), out=np.empty(4))
    np.testing.assert_array_equal(whet.softmax([1, 2, 3]), whet.softmax(np.array([1, 2, 3], np.float32)))


def test_masks_broadcast_and_mask():
    x = normal(4, 3, 6)
    for shape in ((6,), (3, 6), (3, 1), (4, 1, 1), (4, 1, 6), (1, 3, 6), (4, 3, 6), ()):
        added = normal(*shape)
        for mask in (added, added.astype(np.float16), np.asfortranarray(added)):
            expected, _ = reference(x + mask.astype(np.float64))
            np.testing.assert_allclose(whet.softmax(x, "softmax", mask=mask), expected, atol=2e-6)
    keep = RANDOM.random((3, 6)) < 0.6
    keep[:, 0] = True
    expected, entropy = reference(np.where(keep, x, -np.inf))
    result, aux = whet.softmax(x, "softmax", mask=keep, return_aux="entropy")
    np.testing.assert_allclose(result, expected, atol=2e-6)
    np.testing.assert_allclose(aux.entropy, entropy, atol=1e-5)
    assert (result[:, ~keep] == 0).all()
    np.testing.assert_array_equal(whet.softmax(x, axis=1, mask=keep[:, :1]), np.moveaxis(
        whet.softmax(np.moveaxis(x, 1, -1).copy(), mask=keep[:, 0]), -1, 1))
    with pytest.raises(ValueError, match="does not broadcast"):
        whet.softmax(x, mask=normal(5))
    with pytest.raises(TypeError, match=r"mask has dtype int.*pass mask\.astype\(bool\)"):
        whet.softmax(x, mask=np.zeros((6,), int))
    with pytest.raises(TypeError, match=r"pass mask\.astype\(numpy\.float32\)"):
        whet.softmax(x, mask=np.zeros(6))


def test_lists_are_taken_and_masked_arrays_refused():
    x = [0.0, 1.0, 2.0]
    np.testing.assert_array_equal(whet.softmax(x, mask=[0.0, 0.0, -np.inf]), whet.softmax(x, mask=[True, True, False]))
    with pytest.raises(TypeError, match="x is a masked array.*mask=~x.mask"):
        whet.softmax(np.ma.masked_array(np.ones(3, np.float32), [0, 0, 1]))
    for axis in (None, 1.0, (0, 1)):
        with pytest.raises(TypeError, match="axis is .* as an integer"):
            whet.softmax(normal(2, 3), axis=axis, return_aux="lse")


def test_sinks_and_given_betas():
    x = normal(4, 3, 6)
    for sink in (0.5, normal(3), normal(4, 1), normal(4, 3), normal(3, 4).T):
        expected, entropy = reference(x, sink=sink)
        result, aux = whet.softmax(x, "softmax", sink=sink, return_aux=["entropy"])
        np.testing.assert_allclose(result, expected, atol=2e-6)
        np.testing.assert_allclose(aux.entropy, entropy, atol=1e-5)
    for beta in (2.0, np.abs(normal(3)), np.abs(normal(3, 4)).T):
        expected, _ = reference(x, beta=np.broadcast_to(beta, (4, 3)))
        np.testing.assert_allclose(whet.softmax(x, "softmax", beta=beta), expected, atol=2e-6)
    shifted = np.frombuffer(bytes(1) + normal(4, 3).tobytes(), np.float32, offset=1).reshape(4, 3)
    for given in (normal(4, 3)[::-1], normal(4, 6)[:, ::-2], shifted):
        np.testing.assert_allclose(whet.softmax(x, "softmax", sink=given), reference(x, sink=given)[0], atol=2e-6)
        np.testing.assert_allclose(whet.softmax(x, "softmax", beta=np.abs(given)), reference(x, beta=np.abs(given))[0], atol=2e-6)
        np.testing.assert_allclose(whet.softmax(x, "softmax", beta=given.clip(0)), reference(x, beta=given.clip(0))[0], atol=2e-6)
    with pytest.raises(ValueError, match="sink has shape"):
        whet.softmax(x, sink=normal(5))


def test_every_statistic():
    x = normal(5, 8)
    x[2, :] = -np.inf
    names = ("entropy", "entropy_after", "beta", "lse", "max", "argmax", "max_prob", "sink_share")
    result, aux = whet.softmax(x, "fixed:2", return_aux=names)
    assert tuple(aux) == names and all(aux[name].shape == (5,) for name in names)
    rows = [0, 1, 3, 4]
    np.testing.assert_allclose(aux.lse[rows], np.log(np.exp(x[rows].astype(float)).sum(-1)), atol=1e-5)
    np.testing.assert_array_equal(aux.max[rows], x[rows].max(-1))
    np.testing.assert_array_equal(aux.argmax, [*x[:2].argmax(-1), -1, *x[3:].argmax(-1)])
    np.testing.assert_allclose(aux.max_prob, result.max(-1), rtol=1e-5)
    np.testing.assert_allclose(aux.sink_share, result[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(aux.beta[rows], 2)
    np.testing.assert_allclose(aux.entropy_after[rows], reference(2 * x[rows].astype(float))[1], atol=1e-5)
    assert (result[2] == 0).all()
    with pytest.raises(ValueError, match="unknown statistic 'entropie'"):
        whet.softmax(x, return_aux=["entropie"])
    with pytest.raises(AttributeError, match="beta is not in return_aux"):
        whet.softmax(x, return_aux="entropy")[1].beta


def test_rows_that_are_not_finite_give_nan():
    x = normal(3, 4)
    x[1, 2] = np.nan
    result = whet.softmax(x)
    assert np.isnan(result[1]).all() and np.isfinite(result[[0, 2]]).all()


def test_shapes_without_rows():
    assert whet.softmax(normal(0, 4)).shape == (0, 4) and whet.softmax(normal(4, 0)).shape == (4, 0)
    assert whet.entropy(normal(4, 0)).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="single number"):
        whet.softmax(np.float32(1))
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        whet.softmax(normal(4, 4), axis=2)
    with pytest.raises(ValueError, match="out must be an array of x's shape"):
        whet.softmax(normal(4), out=np.empty(5, np.float32))


def most_allocated(call):
    """The most memory that a call holds at once, in bytes; numpy reports its arrays to tracemalloc."""
    call()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_no_copies_where_the_layout_allows():
    x, out = normal(64, 8, 512), np.empty((64, 8, 512), np.float32)
    mask, keep = normal(8, 512), np.ones((1, 512), np.float16)
    small = 16384
    assert most_allocated(lambda: whet.softmax(x, out=out)) < small
    assert most_allocated(lambda: whet.softmax(x[::2], out=out[1::2])) < small
    assert most_allocated(lambda: whet.softmax(x[:, :, :256], out=out[:, :, 256:])) < small
    assert most_allocated(lambda: whet.softmax(x, mask=mask, out=out)) < small
    assert most_allocated(lambda: whet.softmax(x, mask=keep, sink=0.5, out=out)) < small
    assert most_allocated(lambda: whet.softmax(x, out=x)) < small
    assert most_allocated(lambda: whet.softmax(np.moveaxis(x, -1, 0), axis=0, out=np.moveaxis(out, -1, 0))) < small
    assert most_allocated(lambda: whet.softmax(x)) < x.nbytes + small
    assert most_allocated(lambda: whet.entropy(x)) < 512 * 112 + small
    assert most_allocated(lambda: whet.softmax(x, axis=0, out=out)) > x.nbytes, "the test would notice a copy"


def test_fitting_recovers_a_polynomial():
    h = np.linspace(0.6, 4, 40)
    fitted = whet.fit_polynomial(h, np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], h), threshold=0.5)
    assert [round(fitted.parameters[name], 6) for name in ("c4", "c3", "c2", "c1", "c0")] == [-0.037, 0.481, -2.3, 4.917, -1.791]
    assert (fitted.parameters["threshold"], fitted.parameters["floor"], fitted.parameters["hold"]) == (0.5, 1, 4)
    assert fitted.beta(entropy=9) == pytest.approx(fitted.beta(entropy=4))
    assert whet.fit_polynomial(h, h, degree=1, hold=np.inf, floor=0).beta(entropy=9) == pytest.approx(9)
    weights = (h < 2).astype(float)
    assert whet.fit_polynomial(h, np.where(h < 2, h, 100), degree=1, weights=weights, hold=np.inf).beta(entropy=3) == pytest.approx(3)
    for arguments, message in (((h, h[1:]), "equally many"), ((h, h, 9), "between 1 and 8"), (([1, 1, 1], [1, 2, 3], 2), "different"),
                               (([1, np.nan, 2], [1, 2, 3], 1), "finite"), ((h, h, 1, None, 1, None, -h), "negative")):
        with pytest.raises(ValueError, match=message):
            whet.fit_polynomial(*arguments)

    class Scalar(float):
        """Prints like a scalar of numpy 2."""

        def __repr__(self):
            return f"np.float64({float(self)})"

    assert whet.fit_polynomial(h, h, 1, threshold=Scalar(0.5), floor=Scalar(1), hold=Scalar(3)).parameters["hold"] == 3
