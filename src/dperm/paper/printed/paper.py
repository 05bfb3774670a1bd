"""The noise that the paper's theorems prescribe; it carries no guarantee."""

import math

from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee


def paper_sigma(setting: Setting, guarantee: Guarantee, n_steps: float, failures: float = 1.0) -> float:
    """Standard deviation of the noise on one coordinate, G sqrt(T ln(1/δ))/(nε): equations (3), (6), (9) and (11).

    Parameters
    ----------
    setting : Setting
        Gives G and n.
    guarantee : Guarantee
        Gives ε and δ.
    n_steps : float
        T, times the constant c.
    failures : float
        What δ is divided into: 2 in equation (6), 1 in the others.
    """
    log_term = n_steps * math.log(failures / guarantee.delta)
    return setting.constants.lipschitz * math.sqrt(log_term) / (setting.n * guarantee.epsilon)
