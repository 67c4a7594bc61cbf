"""PURE. What a measured computer would do for a project, about."""

from engine.contract.snapshot import Measurement, Settings


def tokens_per_hour(
    measurement: Measurement, reference_parameters: int, parameters: int, settings: Settings
) -> float | None:
    """While nobody uses the computer, with these settings; None when it was not measured.

    The time for a token grows with the parameters (6 operations each: Kaplan et al. 2020, section 2.1), which holds for
    models that are not much smaller than the reference. The processor's part is what its share leaves.
    """
    rates = []
    for speed in measurement.devices:
        if speed.tokens_per_second is None:
            continue
        share = settings.cpu_share_percent / 100 if speed.device == "cpu" else 1.0
        rates.append(speed.tokens_per_second * share)
    if not rates or measurement.state == "running":
        return None
    return max(rates) * 3600 * reference_parameters / max(1, parameters)
