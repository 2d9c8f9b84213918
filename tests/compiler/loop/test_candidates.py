"""Candidates of a tuner: other schedules that the primitives accept."""

import numpy as np
import pytest

from tests.compiler.loop.interpreter import run_kernel
from weft.compiler.driver.compile_kernels import parse_kernel
from weft.compiler.loop.candidates import is_legal, neighbours, scheduled_steps, variants
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.schedule_file import apply_schedule
from weft.compiler.target.module_target import GENERIC
from weft.dialects.errors import IllegalSchedule

PRODUCT = """
loop.kernel @product(%x: !loop.buffer<[24, 8], f32>, %w: !loop.buffer<[8, 64], f32>,
                     %y: !loop.buffer<[24, 64], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 64 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[24, 64], f32>
    }
  }
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[24, 8], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[8, 64], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[24, 64], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[24, 64], f32>
      }
    }
  }
}
"""


def test_candidates_are_other_schedules_of_the_same_meaning():
    kernel = parse_kernel(PRODUCT)
    own = scheduled_steps(kernel, GENERIC)
    others = [*variants(kernel, GENERIC), *neighbours(kernel, own, GENERIC)]
    assert own not in others
    assert len(others) == len(set(others)) >= 4
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape, np.float32) for shape in ((24, 8), (8, 64)))
    for steps in others[::3]:
        scheduled = parse_kernel(PRODUCT)
        apply_schedule(scheduled, KernelSchedule("product", steps), GENERIC)
        *_, y = run_kernel(scheduled, x, w, np.zeros((24, 64), np.float32))
        np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-5)


def test_steps_that_do_not_fit_the_kernel_are_illegal():
    kernel = parse_kernel(PRODUCT)
    assert is_legal(kernel, ('tile{loop="j" size=16}',), GENERIC)
    assert not is_legal(kernel, ('tile{loop="nothing" size=16}',), GENERIC)
    small = ('pack{buffer="w" layout="[(d1 floordiv 16), d0, (d1 mod 16)] in [3, 8, 16]"}',)
    assert not is_legal(kernel, small, GENERIC)


@pytest.mark.parametrize(
    "layout",
    [
        "[(d1 floordiv 16), d0, (d1 mod 16)] in [3, 8, 16]",
        "[d0, d1 - 1] in [8, 64]",
        "[d0, d2] in [8, 64]",
        "[d0] in [8, 64]",
    ],
)
def test_a_layout_with_places_outside_of_its_storage_is_illegal(layout: str):
    step = KernelSchedule("product", (f'pack{{buffer="w" layout="{layout}"}}',))
    with pytest.raises(IllegalSchedule, match="pack requires places inside of its storage"):
        apply_schedule(parse_kernel(PRODUCT), step, GENERIC)
