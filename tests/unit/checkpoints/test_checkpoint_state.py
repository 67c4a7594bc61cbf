import dataclasses
from typing import Any

import numpy as np
import pytest

from engine.checkpoints.state import SharedState
from tests.helpers.states import make_state

COUNT = 6


def test_a_good_state_passes() -> None:
    make_state(COUNT).validate(COUNT)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"global_step": -1}, "global_step"),
        ({"manifest_hash": b"short"}, "manifest_hash"),
        ({"scalars": {"beta1_product": float("nan")}}, "beta1_product"),
        ({"scalars": {str(number): 0.0 for number in range(17)}}, "scalars"),
        ({"weights": np.zeros(COUNT + 1, dtype=np.float32)}, "weights"),
        ({"weights": np.zeros((1, COUNT), dtype=np.float32)}, "weights"),
        ({"moment1": np.zeros(COUNT, dtype=np.float64)}, "moment1"),
        ({"moment1": np.full(COUNT, np.inf, dtype=np.float32)}, "moment1"),
        ({"moment2": np.full(COUNT, -1.0, dtype=np.float32)}, "moment2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    state: SharedState = dataclasses.replace(make_state(COUNT), **changes)
    with pytest.raises(ValueError, match=named):
        state.validate(COUNT)
