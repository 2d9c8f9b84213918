"""A StableHLO program, as JAX and others export it, compiled for any number of rows."""

import numpy as np

import weft

PROGRAM = b"""
module @scores {
  func.func public @main(%x: tensor<?x4xf32>, %w: tensor<4x3xf32>) -> tensor<?x3xf32> {
    %logits = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
    %scores = stablehlo.logistic %logits : tensor<?x3xf32>
    return %scores : tensor<?x3xf32>
  }
}
"""


def main() -> None:
    exe = weft.compile(PROGRAM)
    generator = np.random.default_rng(0)
    w = generator.standard_normal((4, 3)).astype(np.float32)
    for rows in (1, 5):
        x = generator.standard_normal((rows, 4)).astype(np.float32)
        (scores,) = exe(x, w)
        assert np.allclose(scores, 1 / (1 + np.exp(-(x @ w))), atol=1e-6)
        print(f"{rows} rows: {scores.shape}")


if __name__ == "__main__":
    main()
