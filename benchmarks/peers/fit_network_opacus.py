"""A network by Opacus: DP-SGD or DP-Adam with Poisson samples, add_remove.

Gradients are clipped by its ghost mode. Against per-row gradients, at batches of 512 and 2048, it was 4 and 13 times as
fast on Adult, 1.1 and 2.5 times on Letter, and 1.1 and 1.5 times on California, but slower there at 698: 0.13 s an
epoch against 0.10 s. All were measured once, on a busy machine.
"""

import functools
import time
import warnings
from typing import Any

import torch
from fit_opacus import Rows, as_it_is
from network_job import Fitted, run
from network_job import Rows as Table
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch import nn
from torch.utils.data import DataLoader


@functools.cache
def noise_multiplier(epsilon: float, delta: float, n_batches: int, epochs: int) -> float:
    """Calibrated by the PRV accountant, to 1 % of ε. Remembered from seed to seed."""
    return get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=1 / n_batches, epochs=epochs, accountant="prv",
        epsilon_tolerance=0.01 * epsilon, eps_error=0.01 * epsilon,
    )  # fmt: skip


def network(n_columns: int, hidden: int, n_outputs: int, gain: float) -> nn.Sequential:
    """Tanh units with normal weights of deviation gain/√p, and outputs that start at zero."""
    outputs = nn.Linear(hidden or n_columns, n_outputs)
    nn.init.zeros_(outputs.weight)
    nn.init.zeros_(outputs.bias)
    if not hidden:
        return nn.Sequential(outputs)
    first = nn.Linear(n_columns, hidden)
    nn.init.normal_(first.weight, std=gain / n_columns**0.5)
    nn.init.zeros_(first.bias)
    return nn.Sequential(first, nn.Tanh(), outputs)


class HalfSquare(nn.Module):
    """½(f(x) − y)²: its mean, or of every row where the reduction is "none"."""

    reduction = "mean"

    def forward(self, outputs: Any, targets: Any) -> Any:
        """The loss of a batch."""
        losses = 0.5 * (outputs[:, 0] - targets) ** 2
        return losses if self.reduction == "none" else losses.mean()


def fit(
    rows: Table, *, hidden: int, epsilon: float, delta: float, seed: int,
    batch: int, epochs: int, optimiser: str, rate: float, clip: float, gain: float = 1.0, timed: bool = False,
) -> Fitted:  # fmt: skip
    """Predictions of the last iterate and, unless it is timed, of the mean of the second half of them."""
    torch.manual_seed(seed)
    model = network(rows.X.shape[1], hidden, rows.n_classes or 1, gain)
    optimizer = (
        torch.optim.Adam(model.parameters(), lr=rate)
        if optimiser == "adam"
        else torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    )
    loader = DataLoader(Rows(rows.X, rows.y), batch_size=batch, collate_fn=as_it_is)
    n_batches = len(loader)
    private, optimizer, loss, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, poisson_sampling=True, grad_sample_mode="ghost",
        criterion=nn.CrossEntropyLoss() if rows.n_classes else HalfSquare(),
        noise_multiplier=noise_multiplier(epsilon, delta, n_batches, epochs), max_grad_norm=clip,
    )  # fmt: skip
    weights = list(model.parameters())
    sums, n_summed, first = [torch.zeros_like(weight) for weight in weights], 0, n_batches * epochs // 2
    taken, step = [], 0
    for _ in range(epochs):
        began = time.perf_counter()
        for X, y in loader:
            optimizer.zero_grad()
            loss(private(X), y).backward()
            optimizer.step()
            step += 1
            if step > first and not timed:
                n_summed += 1
                with torch.no_grad():
                    torch._foreach_add_(sums, weights)
        taken.append(time.perf_counter() - began)
    plain = network(rows.X.shape[1], hidden, rows.n_classes or 1, gain)
    predictions = {"last": predict(plain, weights, rows)}
    if n_summed:
        predictions["mean"] = predict(plain, [total / n_summed for total in sums], rows)
    return Fitted(predictions, taken, epochs, len(rows.y) / n_batches)


@torch.no_grad()
def predict(model: nn.Module, weights: list[Any], rows: Table) -> Any:
    """Classes or numbers for the test rows."""
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.copy_(weight)
    outputs = model(torch.as_tensor(rows.X_test))
    return (outputs.argmax(1) if rows.n_classes else outputs[:, 0]).numpy()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a seeded generator, hooks on a module without inputs that need gradients
    torch.set_num_threads(1)  # faster than two on so small a module
    run(fit)
