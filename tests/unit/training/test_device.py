import pytest
import torch

from engine.training.device import DeviceUnusable, choose_device


def test_the_processor_is_always_there() -> None:
    assert choose_device("cpu") == torch.device("cpu")


def test_auto_takes_the_processor_where_nothing_better_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")


def test_auto_passes_over_a_device_that_is_listed_but_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **kwargs: object) -> torch.Tensor:
        raise RuntimeError("CUDA driver version is insufficient\nsecond line")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch, "ones", failing)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(DeviceUnusable, match=r"driver version is insufficient$"):
        choose_device("cuda")


def test_a_named_device_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceUnusable, match="cuda: not available"):
        choose_device("cuda")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DeviceUnusable, match="not one of"):
        choose_device("tpu; rm -rf")
